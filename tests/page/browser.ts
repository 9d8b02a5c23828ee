import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { later, pause } from "../waiting.ts";

/** The program of a browser without a screen; undefined: none is installed. */
export const browserProgram = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"].find(each =>
  Bun.which(each),
);

/** The time limit of a browser for its start and for each command, in milliseconds. */
const limitMs = 120_000;

/** A browser with one tab, driven by the Chrome DevTools Protocol. */
export class Browser {
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: { result?: unknown; error?: { message: string } }) => void>();
  readonly #events = new Map<string, () => void>();
  /** What the page has written to its console, and violations of its policy. */
  readonly messages: string[] = [];
  #last = 0;

  private constructor(child: ChildProcess, folder: string, socket: WebSocket) {
    this.#process = child;
    this.#folder = folder;
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data));
      if (message.id !== undefined) this.#waiting.get(message.id)?.(message);
      else this.#events.get(message.method)?.();
      if (message.method === "Log.entryAdded") this.messages.push(message.params.entry.text);
      if (message.method === "Runtime.exceptionThrown") this.messages.push(JSON.stringify(message.params));
    });
  }

  static async start(): Promise<Browser> {
    const folder = await mkdtemp(join(tmpdir(), "csimux-browser-"));
    const flags = [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--remote-debugging-port=0",
    ];
    const child = spawn(browserProgram ?? "", [...flags, `--user-data-dir=${folder}`, "about:blank"], {
      stdio: "ignore",
      detached: true,
      env: { ...process.env, HOME: folder, TMPDIR: folder },
    });
    const until = Date.now() + limitMs;
    let port = "";
    while (port === "") {
      const text = await readFile(join(folder, "DevToolsActivePort"), "utf8").catch(() => "");
      if (text.includes("\n")) port = text.split("\n")[0] ?? "";
      if (Date.now() > until) {
        await ended(child, folder);
        throw new Error("the browser does not start");
      }
      await pause(50);
    }
    const tabs = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as {
      type: string;
      webSocketDebuggerUrl: string;
    }[];
    const socket = new WebSocket(tabs.find(({ type }) => type === "page")?.webSocketDebuggerUrl ?? "");
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", reject);
    });
    const browser = new Browser(child, folder, socket);
    for (const domain of ["Page", "Runtime", "Log", "Accessibility"]) await browser.send(`${domain}.enable`);
    return browser;
  }

  /** Sends a command and returns its result. */
  send(method: string, params: object = {}): Promise<Record<string, unknown>> {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      // The deadline of the answer.
      const timer = later(() => reject(new Error(`no answer to ${method}`)), limitMs);
      this.#waiting.set(id, ({ result, error }) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        if (error) reject(new Error(`${method}: ${error.message}`));
        else resolve(result as Record<string, unknown>);
      });
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }

  /** Opens a page and waits until it is loaded. */
  async open(url: string): Promise<void> {
    const loaded = new Promise<void>(resolve => this.#events.set("Page.loadEventFired", resolve));
    await this.send("Page.navigate", { url });
    await loaded;
  }

  /** The value of an expression in the page; promises are awaited. */
  async evaluate<T>(expression: string): Promise<T> {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = (await this.send("Runtime.evaluate", options)) as {
      result: { value: T };
      exceptionDetails?: object;
    };
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails));
    return result.value;
  }

  /** The size of the window, and the colours that its user prefers. */
  async look(width: number, height: number, scheme: "light" | "dark"): Promise<void> {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 600 });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  }

  /** Writes a picture of the window, or of the whole page. */
  async picture(file: string, whole: boolean): Promise<void> {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
    await Bun.write(file, Buffer.from(String(data), "base64"));
  }

  async end(): Promise<void> {
    this.#socket.close();
    await ended(this.#process, this.#folder);
  }
}

/** Ends a browser with all its processes: Debian starts it by a script, so its group is ended. */
async function ended(child: ChildProcess, folder: string): Promise<void> {
  const gone = new Promise(resolve => child.once("exit", resolve));
  if (child.pid !== undefined && child.exitCode === null) {
    process.kill(-child.pid, "SIGKILL");
    await gone;
  }
  await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}
