"""Draws what a command shows on a terminal: python3 terminal.py OUT.svg SECONDS COMMAND...

The command runs on a pseudo-terminal of 100 columns. The picture is its screen after SECONDS, or at its end.
"""

import fcntl
import html
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

COLUMNS, LINES = 100, 40
COLOURS = {"31": "#f47067", "32": "#6bc46d", "33": "#daaa3f", "34": "#6cb6ff", "35": "#dcbdfb", "36": "#76e3ea", "90": "#8b949e",
           "91": "#ff938a", "92": "#8ddb8c", "93": "#eac55f", "94": "#96d0ff"}


def record(seconds, command):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True)
    os.close(theirs)
    said, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([ours], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # the command has ended
            break
        if not part:
            break
        said += part
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(10)
    return said.decode()


def screen(text):
    """The cells of the screen: lines of (character, style)."""
    lines, row, column, style = [[]], 0, 0, ()
    for m in re.finditer(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()=>].?|([^\x1b])", text):
        code, final, character = m.groups()
        if final == "m":
            codes = [c for c in (code or "0").split(";")]
            style = () if codes in (["0"], [""]) else tuple(codes) if "0" not in codes else tuple(c for c in codes if c != "0")
        elif final == "H":
            at = [int(n or 1) for n in code.split(";")] if code else [1, 1]
            row, column = at[0] - 1, (at + [1])[1] - 1
        elif final == "J":
            del lines[row + (1 if column else 0):]
        elif final == "K":
            while len(lines) <= row:
                lines.append([])
            del lines[row][column:]
        elif character == "\r":
            column = 0
        elif character == "\n":
            row += 1
        elif character and character >= " ":
            while len(lines) <= row:
                lines.append([])
            line = lines[row]
            while len(line) <= column:
                line.append((" ", ()))
            line[column] = (character, style)
            column += 1
    while lines and not any(c != " " for c, _ in lines[-1]):
        lines.pop()
    return lines


def draw(lines, title):
    width, height = 24 + 7.85 * COLUMNS, 17
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height * len(lines) + 62}" role="img" aria-label="{html.escape(title)}">',
           '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
           '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13" fill="#d1d7e0">',
           f'<text x="12" y="26" fill="#8b949e">$ {html.escape(title)}</text>']
    for number, line in enumerate(lines):
        y, at = 54 + height * number, 0
        while at < len(line):
            end = at
            while end < len(line) and line[end][1] == line[at][1]:
                end += 1
            text = "".join(c for c, _ in line[at:end])
            if text.strip():
                style = line[at][1]
                lead = len(text) - len(text.lstrip(" "))
                colour = next((f' fill="{COLOURS[c]}"' for c in style if c in COLOURS), ' fill="#8b949e"' if "2" in style else "")
                weight = ' font-weight="bold"' if "1" in style else ""
                text = text.strip(" ")
                out.append(f'<text x="{12 + 7.85 * (at + lead):.1f}" y="{y}" textLength="{7.85 * len(text):.1f}"{colour}{weight} xml:space="preserve">{html.escape(text)}</text>')
            at = end
    return "\n".join([*out, "</g>", "</svg>", ""])


if __name__ == "__main__":
    path, seconds, *command = sys.argv[1:]
    lines = screen(record(float(seconds), command))
    with open(path, "w") as file:
        file.write(draw(lines, " ".join(os.path.basename(command[0]) if i == 0 else c for i, c in enumerate(command))))
