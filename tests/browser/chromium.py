# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over a pipe by its DevTools protocol. Standard library only."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time


class Page:
    """One page in a browser of its own, which ends with the `with` block.

    `requests` has the address of everything that the page asked for, `faults` what it logged as an error.
    """

    def __init__(self, width=1440, height=900, is_dark=False):
        self.width, self.height, self.is_dark = width, height, is_dark
        self.requests, self.faults = [], []

    def __enter__(self):
        self.profile = tempfile.mkdtemp()
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        self.browser = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read_there} 4>&{write_there}', "bash", "chromium", "--headless=new",
             "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={self.profile}",
             f"--window-size={self.width},{self.height}"],
            env={**os.environ, "TMPDIR": self.profile}, pass_fds=(read_there, write_there), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_there)
        os.close(write_there)
        self.to, self.last, self.session = os.fdopen(write_here, "wb", 0), 0, None
        self.answers, self.arrived = {}, threading.Condition()
        threading.Thread(target=self._listen, args=(os.fdopen(read_here, "rb", 0),), daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=self.height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if self.is_dark else "light"}])
        return self

    def __exit__(self, *_):
        self.to.close()
        self.browser.terminate()
        try:
            self.browser.wait(20)
        except subprocess.TimeoutExpired:
            self.browser.kill()
            self.browser.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _listen(self, pipe):
        held = b""
        while True:
            got = pipe.read(1 << 16)
            if not got:
                break
            *messages, held = (held + got).split(b"\0")
            for message in map(json.loads, messages):
                self._take(message)
        with self.arrived:
            self.answers = None
            self.arrived.notify_all()

    def _take(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.faults.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(params["entry"]["text"])
        if "id" in message:
            with self.arrived:
                self.answers[message["id"]] = message
                self.arrived.notify_all()

    def call(self, method, seconds=120, **params):
        """Calls a method of the protocol and returns its result."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        with self.arrived:
            if not self.arrived.wait_for(lambda: self.answers is None or self.last in self.answers, seconds):
                raise TimeoutError(f"chromium did not answer {method} for {seconds} s")
            if self.answers is None:
                raise RuntimeError(f"chromium ended during {method}")
            answer = self.answers.pop(self.last)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def value(self, expression):
        """The value of a JavaScript expression; waits for a promise."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{expression}: {got['exceptionDetails'].get('exception', {}).get('description')}")
        return got["result"].get("value")

    def wait(self, expression, seconds=120):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            if self.faults:
                raise RuntimeError("; ".join(self.faults))
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} was not true for {seconds} s")
            time.sleep(0.05)

    def open(self, path):
        """Opens a file, and waits until a report in it is shown."""
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("Boolean(window.report)")

    def key(self, key):
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else "")

    def click(self, x, y):
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path, is_whole=True):
        """Writes a PNG of the whole page, or of what the window shows."""
        clip = {}
        if is_whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
                    "captureBeyondViewport": True}
        data = self.call("Page.captureScreenshot", format="png", **clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def paper(self):
        """The page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
