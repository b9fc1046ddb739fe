"""Takes a picture of a page once it shows a text: python3 page.py OUT.png URL WIDTH HEIGHT TEXT

It drives chromium-headless-shell by its DevTools protocol on two pipes. The option --screenshot does not wait for what comes
after the page has loaded.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time


class Browser:
    def __init__(self, directory):
        theirs, self.to = os.pipe()
        self.from_, ours = os.pipe()

        def keep():  # the browser reads 3 and writes 4
            a, b = os.dup(theirs), os.dup(ours)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            ["chromium-headless-shell", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-proxy-server", "--force-color-profile=srgb", "--user-data-dir=" + directory],
            close_fds=False, preexec_fn=keep, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(ours)
        self.said, self.id, self.session = b"", 0, None

    def do(self, method, **params):
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.said:
                part = os.read(self.from_, 1 << 20)
                if not part:
                    sys.exit("page.py: the browser has ended")
                self.said += part
            answer, _, self.said = self.said.partition(b"\0")
            answer = json.loads(answer)
            if answer.get("id") == self.id:
                if "error" in answer:
                    sys.exit(f"page.py: {method}: {answer['error']['message']}")
                return answer["result"]


def main(out, url, width, height, text):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        b = Browser(directory)
        target = b.do("Target.createTarget", url="about:blank")["targetId"]
        b.session = b.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        b.do("Emulation.setDeviceMetricsOverride", width=int(width), height=int(height), deviceScaleFactor=1, mobile=False)
        b.do("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while text not in b.do("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")["result"].get("value", ""):
            if time.monotonic() > deadline:
                sys.exit(f"page.py: {url} does not show {text!r}")
            time.sleep(0.2)
        time.sleep(3)  # what moves into place has arrived
        with open(out, "wb") as file:
            file.write(base64.b64decode(b.do("Page.captureScreenshot", format="png")["data"]))
        b.session = None
        b.do("Browser.close")
        b.process.wait(30)


if __name__ == "__main__":
    main(*sys.argv[1:])
