import { css } from 'lit'

export const styles = css`
  :host {
    --_accent: var(--platen-accent, light-dark(#3552d8, #93a7ff));
    --_surface: var(--platen-surface, light-dark(#fff, #1a1c22));
    --_raised: light-dark(#f5f6f9, #23262e);
    --_line: light-dark(#e3e6ed, #343843);
    --_text: var(--platen-text, light-dark(#1b1f2a, #eceef4));
    --_quiet: light-dark(#5d6576, #9ba3b4);
    --_good: light-dark(#12805c, #5fd6ab);
    --_bad: light-dark(#c02b3c, #ff8e98);
    --_warn: light-dark(#93600a, #f0bf61);
    color-scheme: light dark;
    display: inline-block;
    font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    color: var(--_text);
  }
  * { box-sizing: border-box; }
  button, a.action {
    font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-decoration: none;
  }
  :focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; border-radius: 6px; }
  .launcher {
    display: inline-flex; align-items: center; gap: 8px; height: 36px; padding: 0 12px;
    border: 1px solid var(--_line); border-radius: 10px; background: var(--_surface); font-weight: 550;
  }
  .launcher:hover { background: var(--_raised); }
  .launcher svg { width: 16px; height: 16px; }
  .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .badge {
    min-width: 20px; padding: 0 6px; border-radius: 10px; background: var(--_accent); color: var(--_surface);
    font-size: 12px; line-height: 20px; font-weight: 650; text-align: center; font-variant-numeric: tabular-nums;
  }
  dialog {
    position: fixed; inset: 0 0 0 auto; margin: 0; width: min(440px, 100vw); height: 100dvh; max-height: none; max-width: none;
    padding: 0; border: 0; border-left: 1px solid var(--_line); background: var(--_surface); color: inherit;
    box-shadow: 0 24px 60px rgb(10 14 30 / 0.22);
  }
  dialog[open] { display: flex; flex-direction: column; animation: in 160ms ease-out; }
  dialog::backdrop { background: rgb(16 20 34 / 0.32); }
  @keyframes in { from { transform: translateX(24px); opacity: 0; } }
  @media (prefers-reduced-motion: reduce) { dialog[open], .bar i.now { animation: none; } }
  header { display: flex; align-items: center; padding: 18px 20px 14px; border-bottom: 1px solid var(--_line); }
  h2 { margin: 0; font-size: 17px; font-weight: 650; flex: 1; }
  .close { width: 32px; height: 32px; border-radius: 8px; font-size: 20px; line-height: 1; color: var(--_quiet); }
  .close:hover { background: var(--_raised); color: var(--_text); }
  .notice { margin: 0; padding: 10px 20px; background: var(--_raised); border-bottom: 1px solid var(--_line); font-size: 13px; }
  .scroll { flex: 1; overflow-y: auto; padding: 4px 12px 24px; }
  h3 { margin: 18px 8px 6px; font-size: 12px; font-weight: 600; color: var(--_quiet); text-transform: uppercase; letter-spacing: 0.05em; }
  ul { list-style: none; margin: 0; padding: 0; }
  .task { padding: 12px; border: 1px solid var(--_line); border-radius: 12px; margin: 8px 0; background: var(--_surface); }
  .head { display: grid; grid-template-columns: 32px 1fr auto; gap: 2px 12px; align-items: center; }
  .icon { grid-row: span 2; width: 32px; height: 32px; border-radius: 9px; display: grid; place-items: center; background: var(--_raised); color: var(--_accent); }
  .icon.good { color: var(--_good); } .icon.bad { color: var(--_bad); } .icon.quiet { color: var(--_quiet); }
  .icon svg { width: 18px; height: 18px; }
  .name { font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
  .time { font-size: 12px; color: var(--_quiet); font-variant-numeric: tabular-nums; }
  .status { grid-column: 2 / -1; font-size: 13px; color: var(--_quiet); }
  .status.bad { color: var(--_bad); } .status.good { color: var(--_good); }
  .bar { display: flex; gap: 4px; margin: 12px 0 2px; }
  .bar i { flex: 1; height: 4px; border-radius: 2px; background: var(--_line); }
  .bar i.done { background: var(--_accent); }
  .bar i.now { background: linear-gradient(90deg, var(--_line) 30%, var(--_accent) 50%, var(--_line) 70%) 0 / 300% 100%; animation: slide 1.4s linear infinite; }
  @keyframes slide { from { background-position: 100% 0; } to { background-position: -50% 0; } }
  .actions { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 10px; }
  .action { display: inline-flex; align-items: center; gap: 6px; height: 30px; padding: 0 10px; border: 1px solid var(--_line); border-radius: 8px; font-size: 13px; font-weight: 550; }
  button.action { border: 1px solid var(--_line); padding: 0 10px; }
  .action:hover { background: var(--_raised); }
  .action.primary { background: var(--_accent); border-color: transparent; color: var(--_surface); }
  .action.primary:hover { filter: brightness(1.08); }
  .action small { font-weight: 400; opacity: 0.75; }
  .findings { margin-top: 10px; border-top: 1px solid var(--_line); padding-top: 4px; }
  .findings li { padding: 8px 0; border-bottom: 1px solid var(--_line); font-size: 13px; }
  .findings li:last-child { border: 0; padding-bottom: 0; }
  .place { font: 12px/1.4 ui-monospace, SFMono-Regular, Menlo, monospace; color: var(--_quiet); }
  .ERROR { color: var(--_bad); } .WARNING { color: var(--_warn); } .INFO { color: var(--_quiet); }
  .severity { font-size: 11px; font-weight: 650; text-transform: uppercase; letter-spacing: 0.04em; margin-right: 6px; }
  .message { overflow-wrap: anywhere; }
  .hint { color: var(--_quiet); margin-top: 2px; }
  .empty { padding: 64px 24px; text-align: center; color: var(--_quiet); }
  .empty strong { display: block; color: var(--_text); font-size: 15px; margin-bottom: 4px; }
  .skeleton { height: 74px; border-radius: 12px; background: var(--_raised); margin: 8px 0; }
  @media (max-width: 520px) { dialog { width: 100vw; border: 0; } }
`
