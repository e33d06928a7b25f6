"""A headless Chromium on WebDriver's wire protocol, with the standard library alone."""

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


SECONDS = 600
"""How long a page or a script may take on a machine that is busy; the driver itself gives a script 30."""


class Browser:
    """A session of chromedriver; `close` ends it, the driver and the browser."""

    def __init__(self, profile: Path) -> None:
        driver, chromium = shutil.which("chromedriver"), shutil.which("chromium")
        if not driver or not chromium:
            raise RuntimeError(
                "the browser tests need Chromium and its driver: apt-get install chromium chromium-driver"
            )
        self.driver = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.driver.stdout is not None
        try:
            port = next(
                match[1]
                for said in self.driver.stdout
                if (match := re.search(r"success.* on port (\d+)", said))
            )
            self.url = f"http://127.0.0.1:{port}/session"
            options = {"binary": chromium, "args": [*ARGUMENTS, f"--user-data-dir={profile}"]}
            capabilities = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL"},
                "timeouts": {"script": 1000 * SECONDS, "pageLoad": 1000 * SECONDS},
            }
            session = self._call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
            self.url += f"/{session['sessionId']}"
        except BaseException:
            self._end_driver()
            raise

    def open(self, url: str, *, width: int, dark: bool) -> None:
        """Show a page on a screen of this width that prefers light or dark."""
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self._devtools("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._call("POST", "/url", {"url": url})

    def run(self, script: str) -> object:
        """Run a JavaScript function body on the page and return its value."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def console(self) -> list[str]:
        """The browser's complaints about the page since the last call."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path, height: int | None = None, top: float = 0) -> None:
        """The page as a PNG, whole or the part of this height that begins at `top`."""
        wanted = {"captureBeyondViewport": True}
        if height is not None:
            width = self.run("return innerWidth")
            wanted["clip"] = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        image = self._devtools("Page.captureScreenshot", wanted)
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        """End the session, then the driver."""
        try:
            self._call("DELETE", "", None)
        finally:
            self._end_driver()

    def _end_driver(self) -> None:
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()

    def _devtools(self, command: str, parameters: dict) -> dict:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: dict | None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=2 * SECONDS) as answer:
            return json.load(answer)["value"]
