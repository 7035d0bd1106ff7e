/** A fault that lasts until it is restored or disposed; a second time does nothing. */
export interface Fault extends Disposable {
  restore(): void;
}

/** @param undo called once. */
export function faultOf(undo: () => void): Fault {
  let done = false;
  const restore = () => {
    if (done) return;
    done = true;
    undo();
  };
  return { restore, [Symbol.dispose]: restore };
}
