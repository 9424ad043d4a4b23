"""How a page looks, light and dark. tests/pipelines/showing/test_page.py computes the contrasts of these colours."""

from __future__ import annotations

__all__ = ["DARK", "LIGHT", "STYLE"]

LIGHT = {
    "paper": "#ffffff", "ink": "#1b1f24", "soft": "#4d5560", "line": "#c4cad2", "band": "#f3f5f8", "link": "#0a58a6",
    "warn": "#8f1d1d", "bar": "#0b6bcb",
    "c0": "#0b6bcb", "c1": "#b8410f", "c2": "#177245", "c3": "#8a3fa8", "c4": "#8a5d00", "c5": "#b3246b",
    "c6": "#0e7482", "c7": "#5b5f66",
}  # fmt: skip
DARK = {
    "paper": "#14171b", "ink": "#e7eaee", "soft": "#aab3bf", "line": "#3a424d", "band": "#1e2329", "link": "#7db7ff",
    "warn": "#ffa8a0", "bar": "#2f7fd6",
    "c0": "#6cb2ff", "c1": "#ff9a6b", "c2": "#5fd39a", "c3": "#cf9bf0", "c4": "#e3b341", "c5": "#ff86b7",
    "c6": "#56c8d8", "c7": "#b6bcc6",
}  # fmt: skip


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_LINES = "".join(
    f".ptk .c{n} path,.ptk .c{n} circle{{stroke:var(--c{n})}}.ptk .c{n} circle{{fill:var(--c{n})}}" for n in range(8)
)

STYLE = f"""
.ptk{{{_variables(LIGHT)}color-scheme:light dark;color:var(--ink);background:var(--paper);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}}
@media (prefers-color-scheme:dark){{.ptk{{{_variables(DARK)}}}}}
.ptk *{{box-sizing:border-box}}
body.ptk{{margin:0}}
.ptk main{{max-width:60rem;margin:0 auto;padding:1rem}}
.ptk h1{{font-size:1.6rem;line-height:1.25;margin:.5rem 0}}
.ptk h2{{font-size:1.25rem;margin:2rem 0 .5rem}}
.ptk h3{{font-size:1.05rem;margin:1.25rem 0 .25rem}}
.ptk a{{color:var(--link)}}
.ptk a:focus-visible,.ptk summary:focus-visible,.ptk .wide:focus-visible{{
outline:3px solid var(--link);outline-offset:2px}}
.ptk .skip{{position:absolute;left:-999rem}}
.ptk .skip:focus{{left:1rem;top:1rem;background:var(--paper);padding:.5rem}}
.ptk .soft,.ptk caption,.ptk dt{{color:var(--soft)}}
.ptk .warn{{color:var(--warn);font-weight:700;border:2px solid currentColor;padding:.5rem}}
.ptk nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0}}
.ptk nav a{{display:inline-block;padding:.35rem 0}}
.ptk summary{{cursor:pointer;padding:.35rem 0}}
.ptk .unseen{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
.ptk table{{border-collapse:collapse;margin:.5rem 0;color:inherit;font-size:1rem}}
.ptk caption{{text-align:left;padding:.25rem 0}}
.ptk th,.ptk td{{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top;
background:none;white-space:normal}}
.ptk .number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.ptk .wide{{overflow-x:auto;max-width:100%}}
.ptk .symbols{{font-family:ui-monospace,monospace;background:var(--band);padding:.75rem;border-radius:.25rem}}
.ptk dl{{display:grid;grid-template-columns:minmax(7rem,auto) 1fr;gap:.25rem 1rem}}
.ptk dd{{margin:0}}
.ptk svg{{display:block;max-width:none;font:13px system-ui,sans-serif}}
.ptk svg text{{fill:var(--ink)}}
.ptk .axes text{{fill:var(--soft)}}
.ptk .axes line{{stroke:var(--line)}}
.ptk .item path{{fill:none;stroke-width:3}}
.ptk .item .away{{stroke-width:1}}
.ptk .item:hover path{{stroke-width:6}}
.ptk .bar{{fill:var(--bar)}}
.ptk .noise{{stroke:var(--ink);stroke-width:2}}
{_LINES}
@media (max-width:30rem){{.ptk dl{{grid-template-columns:1fr}}.ptk dt{{margin-top:.5rem}}}}
@media print{{.ptk .wide{{overflow:visible}}.ptk svg{{max-width:100%;height:auto}}}}
"""
