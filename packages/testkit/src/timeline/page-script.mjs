// Runs in the reader's browser, inside the page: zoom, pan, what a pointer or a key asks for, and which labels
// have room. Everything else of the page is there without it.

const STEP = 1.6;
/** Browsers lose count of pixels beyond some ten millions. */
const WIDEST = 4_000_000;
const CELL = 8;
const MANY_PIECES = 600;

const tip = /** @type {HTMLElement} */ (document.getElementById('tl-tip'));

/** @param {Element} element @param {string} name */
const number = (element, name) => Number(element.getAttribute(`data-${name}`));

/** @param {Element} element @param {boolean} shown */
function show(element, shown) {
  element.classList.toggle('hidden', !shown);
  if (shown) element.classList.remove('fine');
}

/**
 * @template {Element} [E=Element]
 * @param {ParentNode} parent
 * @param {string} selector
 * @returns {E[]}
 */
const all = (parent, selector) => /** @type {E[]} */ ([...parent.querySelectorAll(selector)]);

/**
 * @template {Element} [E=HTMLElement]
 * @param {ParentNode} parent
 * @param {string} selector
 * @returns {E}
 */
const one = (parent, selector) => /** @type {E} */ (/** @type {unknown} */ (parent.querySelector(selector)));

class Panel {
  /** @param {HTMLElement} section */
  constructor(section) {
    this.section = section;
    this.natural = number(section, 'natural');
    this.view = one(section, '.tl-view');
    /** @type {SVGSVGElement} */
    this.plot = one(section, '.tl-plot');
    /** @type {SVGRectElement} */
    this.ring = one(section, '.ring');
    this.items = all(this.plot, '.item').sort((a, b) => number(a, 'at') - number(b, 'at'));
    this.labels = all(this.plot, '[data-x]')
      .map((element) => ({
        element,
        x: number(element, 'x'),
        from: number(element, 'from'),
        width: number(element, 'w'),
        row: element.getAttribute('data-row') ?? '',
        rank: number(element, 'rank'),
        leader: element.getAttribute('data-leader')?.split(' ').map(Number),
      }))
      .sort((a, b) => a.rank - b.rank || a.x - b.x);
    this.rows = [...new Set(this.labels.map(({ row }) => row))].filter((row) => row !== 'axis');
    this.inside = all(this.plot, '[data-room]').map((element) => {
      const [x = 0, end = 0] = (element.getAttribute('data-room') ?? '').split(' ').map(Number);
      return { element, x, end, y: Number(element.getAttribute('y')), width: number(element, 'w') };
    });
    this.arrows = all(this.plot, '.arrows').map((element) => ({
      lines: all(element, 'line'),
      ends: (element.getAttribute('data-ends') ?? '').split(' ').map(Number),
    }));
    this.pieces = all(this.plot, '[data-span]').map((element) => {
      const [x = 0, end = 0] = (element.getAttribute('data-span') ?? '').split(' ').map(Number);
      return { element, x, end, away: false };
    });
    /** How wide the picture is; undefined: as wide as the page makes it. @type {number | undefined} */
    this.width = undefined;
    this.printing = false;
    this.listen();
    this.refresh();
  }

  listen() {
    const { section, view } = this;
    for (const button of all(section, '[data-zoom]')) {
      button.addEventListener('click', () => this.act(button.getAttribute('data-zoom') ?? ''));
    }
    for (const note of all(section, '.tl-notes button')) {
      note.addEventListener('click', () => this.find(note));
    }
    view.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    view.addEventListener('keydown', (event) => this.key(event));
    view.addEventListener('scroll', () => this.moved(), { passive: true });
    view.addEventListener('dblclick', (event) => this.zoom(STEP * STEP, event.clientX));
    view.addEventListener('pointerover', (event) => this.point(event.target, false));
    view.addEventListener('pointerleave', () => this.point(undefined, false));
    view.addEventListener('focusin', (event) => this.point(event.target, true));
    view.addEventListener('focusout', () => this.unfocus());
    this.listenToDrags();
    new ResizeObserver(() => this.refresh()).observe(view);
  }

  listenToDrags() {
    const { view } = this;
    /** @type {{ x: number, left: number } | undefined} */
    let grip;
    view.addEventListener('pointerdown', (event) => {
      if (event.pointerType === 'mouse' && event.button === 0)
        grip = { x: event.clientX, left: view.scrollLeft };
    });
    view.addEventListener('pointermove', (event) => {
      if (grip === undefined || Math.abs(event.clientX - grip.x) < 4) return;
      if (!view.classList.contains('dragged')) view.setPointerCapture(event.pointerId);
      view.classList.add('dragged');
      view.scrollLeft = grip.left + grip.x - event.clientX;
    });
    for (const end of ['pointerup', 'pointercancel']) {
      view.addEventListener(end, () => {
        grip = undefined;
        view.classList.remove('dragged');
      });
    }
  }

  /** What the width is when nobody chose one. */
  get whole() {
    return Math.max(this.view.clientWidth, Math.min(this.natural, 900));
  }

  get shown() {
    return this.printing ? number(this.section, 'print') : (this.width ?? this.whole);
  }

  get widest() {
    return Math.min(WIDEST, Math.max(this.natural * 40, this.whole * 4));
  }

  /** @param {string} what */
  act(what) {
    if (what === 'in') this.zoom(STEP);
    else if (what === 'out') this.zoom(1 / STEP);
    else {
      this.width = undefined;
      this.refresh();
    }
  }

  /** @param {number} factor @param {number} [clientX] what stays where it is; the middle unless told */
  zoom(factor, clientX) {
    const { view } = this;
    const box = view.getBoundingClientRect();
    const at = clientX === undefined ? view.clientWidth / 2 : clientX - box.left;
    const share = (view.scrollLeft + at) / this.shown;
    const wanted = Math.min(this.widest, this.shown * factor);
    // A picture narrower than its place would leave a hole.
    this.width = wanted <= this.view.clientWidth ? undefined : wanted;
    if (this.width === undefined && this.whole > this.view.clientWidth) this.width = this.view.clientWidth;
    this.refresh(share * this.shown - at);
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    // A wheel alone scrolls the page, as everywhere.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    this.zoom(Math.exp(-Math.max(-200, Math.min(200, pixels)) / 220), event.clientX);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (key === '+' || key === '=') this.zoom(STEP, this.focusX());
    else if (key === '-' || key === '_' || key === '−') this.zoom(1 / STEP, this.focusX());
    else if (key === '0') this.act('all');
    else if (key === 'Escape') hideTip();
    else if (event.shiftKey && key.startsWith('Arrow')) return;
    else if (key === 'ArrowRight') this.step(1);
    else if (key === 'ArrowLeft') this.step(-1);
    else if (key === 'ArrowDown') this.cross(1);
    else if (key === 'ArrowUp') this.cross(-1);
    else if (key === 'Home') this.focus(this.items[0]);
    else if (key === 'End') this.focus(this.items.at(-1));
    else return;
    event.preventDefault();
  }

  focusX() {
    const { focused } = this;
    if (focused === undefined) return undefined;
    const box = focused.getBoundingClientRect();
    const view = this.view.getBoundingClientRect();
    return Math.max(view.left, Math.min(view.right, box.left + Math.min(box.width / 2, 12)));
  }

  get focused() {
    return this.items.find((item) => item === document.activeElement);
  }

  /** @param {number} by */
  step(by) {
    const { focused } = this;
    const index = focused === undefined ? (by > 0 ? -1 : this.items.length) : this.items.indexOf(focused);
    this.focus(this.items[index + by]);
  }

  /** To the nearest in time on the next lane that has any. @param {number} by */
  cross(by) {
    const { focused } = this;
    if (focused === undefined) return this.step(1);
    const lanes = [...new Set(all(this.plot, '.item').map((item) => item.getAttribute('data-lane')))];
    const lane = lanes[lanes.indexOf(focused.getAttribute('data-lane')) + by];
    const at = number(focused, 'at');
    const there = this.items.filter((item) => item.getAttribute('data-lane') === lane);
    const near = (/** @type {Element} */ item) => Math.abs(number(item, 'at') - at);
    this.focus(there.sort((a, b) => near(a) - near(b))[0]);
  }

  /** @param {Element | undefined} item */
  focus(item) {
    const piece = item?.closest('[data-span]');
    if (!(item instanceof SVGElement) || !piece) return;
    const { view } = this;
    const x = (Number(piece.getAttribute('data-span')?.split(' ')[0]) * this.shown) / this.natural;
    const isInSight = x > view.scrollLeft + 24 && x < view.scrollLeft + view.clientWidth - 24;
    if (!isInSight) view.scrollLeft = x - view.clientWidth / 3;
    // What was far away is drawn before it can be focused.
    this.moved();
    item.focus({ preventScroll: true });
    const box = item.getBoundingClientRect();
    if (box.top < 0 || box.bottom > innerHeight) item.scrollIntoView({ block: 'center', inline: 'nearest' });
    this.point(item, true);
  }

  /** Shows what a finding speaks of. @param {Element} note */
  find(note) {
    const [lane, at] = [note.getAttribute('data-lane'), number(note, 'at')];
    const there = this.items.filter(
      (item) => item.getAttribute('data-lane') === lane && number(item, 'at') === at,
    );
    this.focus(there.at(-1));
  }

  /** @param {EventTarget | null | undefined} target @param {boolean} byFocus */
  point(target, byFocus) {
    const item = target instanceof Element ? target.closest('.item') : null;
    if (item === null) return this.focused === undefined ? hideTip() : undefined;
    showTip(item);
    if (byFocus) this.mark(item);
  }

  /** @param {Element} item */
  mark(item) {
    const [box, plot] = [item.getBoundingClientRect(), this.plot.getBoundingClientRect()];
    const at = {
      x: box.left - plot.left - 3,
      y: box.top - plot.top - 3,
      width: box.width + 6,
      height: box.height + 6,
    };
    for (const [name, value] of Object.entries(at)) this.ring.setAttribute(name, `${value}`);
    show(this.ring, true);
  }

  unfocus() {
    show(this.ring, false);
    hideTip();
  }

  /** The picture at its width, and everything that depends on it. */
  refresh(scrollLeft = this.view.scrollLeft) {
    if (this.width !== undefined && this.width <= this.view.clientWidth) this.width = undefined;
    const scale = this.shown / this.natural;
    // Before the browser lays it all out.
    this.cull(scrollLeft);
    this.plot.style.width = this.printing || this.width === undefined ? '' : `${this.width}px`;
    this.placeLabels(scale);
    this.placeArrows(scale);
    this.view.scrollLeft = scrollLeft;
    this.moved();
    this.tellZoom();
    const { focused } = this;
    if (focused !== undefined) this.point(focused, true);
  }

  tellZoom() {
    const { shown, whole } = this;
    one(this.section, 'output').textContent = `${Math.round((shown / whole) * 100)} %`;
    /** @type {HTMLButtonElement} */ (one(this.section, '[data-zoom="in"]')).disabled = shown >= this.widest;
    /** @type {HTMLButtonElement} */ (one(this.section, '[data-zoom="out"]')).disabled =
      shown <= this.view.clientWidth;
  }

  /** The more important first; one that would meet what is there already is hidden. @param {number} scale */
  placeLabels(scale) {
    /** @type {Map<string, Set<number>>} */
    const taken = new Map([...this.rows, 'axis'].map((row) => [row, new Set()]));
    const cells = (/** @type {number} */ from, /** @type {number} */ to) => {
      const [first, last] = [Math.floor(from / CELL), Math.floor(to / CELL)];
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    };
    const decisions = this.labels.map(({ element, x, from, width, row, leader }) => {
      const [start, foot] = [x * scale + from, Math.floor((x * scale) / CELL)];
      const wanted = cells(start, start + width);
      const crossed =
        leader === undefined ? [] : this.rows.filter((other) => other !== row && lies(other, leader));
      const free =
        wanted.every((cell) => !taken.get(row)?.has(cell)) &&
        crossed.every((other) => !taken.get(other)?.has(foot)) &&
        start >= -4 &&
        (row !== 'axis' || start + width <= this.shown);
      if (free) for (const cell of wanted) taken.get(row)?.add(cell);
      if (free) for (const other of crossed) taken.get(other)?.add(foot);
      return { element, free };
    });
    for (const { element, free } of decisions) show(element, free);
  }

  /** From edge to edge of marks, which keep their size. @param {number} scale */
  placeArrows(scale) {
    for (const { lines, ends } of this.arrows) {
      const [ax = 0, ay = 0, bx = 0, by = 0] = ends;
      const [x1, x2] = [ax * scale, bx * scale];
      const length = Math.hypot(x2 - x1, by - ay) || 1;
      const [dx, dy] = [((x2 - x1) / length) * 9, ((by - ay) / length) * 9];
      for (const line of lines) {
        const at = { x1: x1 + dx, y1: ay + dy, x2: x2 - dx, y2: by - dy };
        for (const [name, value] of Object.entries(at)) line.setAttribute(name, value.toFixed(1));
      }
    }
  }

  /** In a large picture, what is far out of sight is left out: browsers are slow with thousands of shapes. */
  cull(scrollLeft = this.view.scrollLeft) {
    if (this.pieces.length < MANY_PIECES) return;
    const { clientWidth } = this.view;
    const scale = this.shown / this.natural;
    const [from, to] = this.printing
      ? [0, this.natural]
      : [(scrollLeft - clientWidth) / scale, (scrollLeft + 2 * clientWidth) / scale];
    for (const piece of this.pieces) {
      const away = piece.end < from || piece.x > to;
      if (away !== piece.away) piece.element.classList.toggle('away', away);
      piece.away = away;
    }
  }

  /** A bar's label stands in the middle of what can be seen of the bar, beside the arrows that cross it. */
  moved() {
    this.cull();
    const scale = this.shown / this.natural;
    // Room ends at marks, which keep their size when the picture gets narrower.
    const margin = 9 * Math.max(0, 1 - scale);
    const [left, right] = this.printing
      ? [0, this.shown]
      : [this.view.scrollLeft, this.view.scrollLeft + this.view.clientWidth];
    for (const { element, x, end, y, width } of this.inside) {
      const [from, to] = [Math.max(left, x * scale + margin), Math.min(right, end * scale - margin)];
      if (to - from < width + 8) {
        show(element, false);
        continue;
      }
      const crossed = this.arrows.flatMap(({ ends }) => crossing(ends, y - 4, scale));
      const [a, b] = widest(
        from,
        to,
        crossed.sort((one, other) => one - other),
      );
      const middle = b - a >= width + 8 ? (a + b) / 2 : (from + to) / 2;
      element.setAttribute('x', middle.toFixed(1));
      show(element, true);
    }
  }

  /** @param {boolean} printing */
  print(printing) {
    if (this.printing === printing) return;
    this.printing = printing;
    this.refresh();
  }
}

/**
 * Where an arrow passes at a height.
 *
 * @param {number[]} ends
 * @param {number} y
 * @param {number} scale
 */
function crossing([ax = 0, ay = 0, bx = 0, by = 0], y, scale) {
  if (y <= Math.min(ay, by) || y >= Math.max(ay, by)) return [];
  return [(ax + ((bx - ax) * (y - ay)) / (by - ay)) * scale];
}

/**
 * The widest stretch between places that are taken.
 *
 * @param {number} from
 * @param {number} to
 * @param {number[]} places  rising
 * @returns {[number, number]}
 */
function widest(from, to, places) {
  const edges = [from, ...places.filter((place) => place > from && place < to), to];
  const stretches = edges
    .slice(1)
    .map((edge, i) => /** @type {[number, number]} */ ([edges[i] ?? from, edge]));
  return stretches.reduce((best, one) => (one[1] - one[0] > best[1] - best[0] ? one : best), [from, from]);
}

/** Whether a leader passes through a row of labels. @param {string} row @param {number[]} leader */
function lies(row, leader) {
  const [from = 0, to = 0] = leader;
  const baseline = Number(row);
  return Math.min(from, to) <= baseline && baseline - 12 <= Math.max(from, to);
}

/** @param {Element} item */
function showTip(item) {
  /** @type {[string, string][]} */
  const rows = JSON.parse(item.getAttribute('data-rows') ?? '[]');
  const list = document.createElement('dl');
  const title = document.createElement('strong');
  for (const [name, value] of rows) {
    if (name === '') {
      title.textContent = value;
      continue;
    }
    const [term, words] = [document.createElement('dt'), document.createElement('dd')];
    term.textContent = name;
    words.textContent = value;
    list.append(term, words);
  }
  tip.replaceChildren(title, list);
  tip.hidden = false;
  const view = /** @type {Element} */ (item.closest('.tl-view')).getBoundingClientRect();
  const box = item.getBoundingClientRect();
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const middle = (Math.max(box.left, view.left) + Math.min(box.right, view.right)) / 2;
  const x = Math.max(8, Math.min(innerWidth - width - 8, middle - width / 2));
  const above = box.top - height - 10;
  tip.style.transform = `translate(${x}px, ${above >= 8 ? above : Math.min(box.bottom + 10, innerHeight - height - 8)}px)`;
}

function hideTip() {
  tip.hidden = true;
}

const panels = /** @type {HTMLElement[]} */ (all(document, '.tl-panel')).map((section) => new Panel(section));

/** @param {boolean} printing */
function print(printing) {
  for (const panel of panels) panel.print(printing);
}

addEventListener('beforeprint', () => print(true));
addEventListener('afterprint', () => print(false));
const paper = matchMedia('print');
paper.addEventListener('change', () => print(paper.matches));
addEventListener('scroll', hideTip, { passive: true });
