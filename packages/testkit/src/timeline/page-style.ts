import { DARK, LIGHT, type Palette, STYLE } from './style.ts';

const variables = ({ page, ink, quiet, faint, good, bad, warn, content }: Palette): string =>
  `--page:${page};--ink:${ink};--quiet:${quiet};--faint:${faint};--good:${good};--bad:${bad};--warn:${warn};--content:${content}`;

/** Around the pictures, which bring their own style. Paper is light, wide and does not scroll. */
export const PAGE_STYLE = `:root{color-scheme:light dark;${variables(LIGHT)}}
@media screen and (prefers-color-scheme:dark){:root{${variables(DARK)}}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.tl-all{max-width:1720px;margin:0 auto;padding:28px clamp(12px,2.4vw,36px) 40px}
h1{font-size:26px;line-height:1.2;letter-spacing:-.01em;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:19px;line-height:1.3;margin:34px 0 0;overflow-wrap:anywhere}
h3{font-size:15.5px;line-height:1.3;margin:0;overflow-wrap:anywhere}
.tl-sub{color:var(--quiet);margin:0;max-width:78ch;overflow-wrap:anywhere}
.tl-panel{margin:14px 0 22px;border:1px solid var(--faint);border-radius:10px}
.tl-head{display:flex;flex-wrap:wrap;gap:4px 18px;align-items:center;padding:11px 16px;border-bottom:1px solid var(--faint)}
.tl-verdict{display:flex;gap:7px;margin:0;font-weight:600;align-items:baseline;overflow-wrap:anywhere;min-width:0}
.tl-verdict svg{flex:none;width:16px;height:16px;align-self:center}
.tl-verdict.good{color:var(--good)}.tl-verdict.bad{color:var(--bad)}
.tl-tools{display:flex;align-items:center;margin-left:auto}
.tl-tools button{font:inherit;line-height:1;min-width:32px;height:30px;padding:0 9px;margin:0 0 0 -1px;color:inherit;background:var(--page);border:1px solid var(--faint);cursor:pointer}
.tl-tools button:first-child{border-radius:7px 0 0 7px}.tl-tools button:last-child{border-radius:0 7px 7px 0}
.tl-tools button:hover:enabled{background:var(--content)}.tl-tools button:disabled{color:var(--quiet);cursor:default;opacity:.55}
.tl-tools output{font-size:12.5px;color:var(--quiet);min-width:58px;height:30px;line-height:28px;text-align:center;border:1px solid var(--faint);margin-left:-1px;font-variant-numeric:tabular-nums}
:focus-visible{outline:2px solid var(--ink);outline-offset:2px}
.tl-notes{list-style:none;margin:0;padding:9px 16px;border-bottom:1px solid var(--faint);max-height:168px;overflow:auto;font-size:13.5px}
.tl-notes li{padding:2px 0 2px 20px;position:relative;overflow-wrap:anywhere}
.tl-notes li::before{content:"";position:absolute;left:2px;top:9px;width:9px;height:9px;border-radius:50%;background:var(--warn)}
.tl-notes .violation::before{background:var(--bad);border-radius:2px;transform:rotate(45deg)}
.tl-notes button{font:inherit;text-align:left;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-decoration:underline;text-decoration-color:var(--faint);text-underline-offset:3px}
.tl-notes button:hover{text-decoration-color:currentColor}
.tl-frame{display:flex;padding:8px 0 0 16px}
.tl-names{flex:none;max-width:34vw;overflow:hidden}
.tl-view{flex:1;min-width:0;overflow:auto hidden;position:relative;cursor:grab;touch-action:pan-x pan-y;border-bottom-right-radius:10px}
.tl-view:focus-visible{outline-offset:-2px}
.tl-view.dragged{cursor:grabbing;user-select:none}
.tl-plot{display:block;width:max(100%,min(var(--natural),900px))}
.tl-frame svg text{pointer-events:none}
.tl .hidden,.tl .fine,.tl .away{display:none}
.tl .item{cursor:default;outline:none}
.tl .item .mark{transition:stroke-width .1s}
.tl .hit{fill:transparent;stroke:none}
.tl .item:hover .mark{stroke-width:3}.tl .item:hover .span{stroke-width:2}
.tl .ring{fill:none;stroke:var(--ink);stroke-width:2.5;pointer-events:none}
.tl-story{border-top:1px solid var(--faint);font-size:13.5px}
.tl-story summary{padding:9px 16px;cursor:pointer;color:var(--quiet)}
.tl-story ol{margin:0;padding:0 16px 12px 16px;list-style:none;max-height:420px;overflow:auto}
.tl-story li{content-visibility:auto;contain-intrinsic-size:auto 21px;overflow-wrap:anywhere}
.tl-story b{display:inline-block;min-width:76px;font-weight:400;color:var(--quiet);font-variant-numeric:tabular-nums}
.tl-legend{display:flex;flex-wrap:wrap;gap:6px 22px;list-style:none;margin:22px 0 10px;padding:0;font-size:13px;color:var(--quiet)}
.tl-legend li{display:flex;gap:8px;align-items:center}.tl-legend svg{flex:none}
.tl-note{font-size:13px;color:var(--quiet);margin:4px 0;max-width:96ch}
kbd{font:inherit;font-size:12px;border:1px solid var(--faint);border-bottom-width:2px;border-radius:4px;padding:0 5px;white-space:nowrap}
.tl-tip{position:fixed;z-index:9;left:0;top:0;max-width:min(420px,calc(100vw - 16px));padding:9px 12px;border-radius:8px;background:var(--page);color:var(--ink);border:1px solid var(--quiet);box-shadow:0 6px 22px rgb(0 0 0/.22);font-size:13px;line-height:1.4;pointer-events:none}
.tl-tip strong{display:block;margin-bottom:3px;overflow-wrap:anywhere}
.tl-tip dl{display:grid;grid-template-columns:auto 1fr;gap:1px 12px;margin:0}
.tl-tip dt{color:var(--quiet)}.tl-tip dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
@media (max-width:640px){.tl-head,.tl-notes{padding-left:11px;padding-right:11px}.tl-frame{padding-left:11px}.tl-tools{margin-left:0}h1{font-size:21px}}
@media (prefers-reduced-motion:reduce){*{transition:none!important}}
@page{size:A4 landscape;margin:11mm}
@media print{
.tl-all{max-width:none;padding:0}.tl-tools,.tl-tip,.tl-keys,.tl-story:not([open]){display:none!important}
.tl-panel,footer{break-inside:avoid}.tl-panel{border-color:#bbb}h2,.tl-head{break-after:avoid}h2{margin-top:16px}.tl-notes,.tl-story ol{max-height:none;overflow:visible}
.tl-frame{zoom:var(--print-zoom)}.tl-names{max-width:none}.tl-view{overflow:hidden}
.tl-plot{width:var(--print-width)!important}.tl .ring{display:none}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
${STYLE}`;
