/** The `dsh-memory serve --stdio` process: started, asked one JSON object a line, and started again when it dies. */

import { spawn } from "node:child_process";

const READY_MS = 10_000;
const CALL_MS = 30_000;
const EXIT_GRACE_MS = 2_000;
const BACKOFF_MS = 250;
const BACKOFF_CAP_MS = 30_000;
const LOGGED_CHARACTERS = 2_000;

// Everything else of the host's environment stays with the host: a project's .env reaches it, keys lie in it, and GIT_* steers Git.
const INHERITED =
  /^(?:PATH|HOME|USER|LOGNAME|LANG|LC_[A-Z]+|TZ|TMPDIR|XDG_(?:CACHE|CONFIG|STATE|DATA)_HOME|DSH_HOME|DSH_MEMORY_[A-Z_]+)$/;

/** The call has no answer, and for a mutating one the outcome is not known: the journal tells. */
export class Unavailable extends Error {
  constructor(detail) {
    super(`memory server: ${detail}`);
    this.detail = detail;
  }
}

/** The server's command line: `DSH_MEMORY_COMMAND`, then `DSH_MEMORY_PYTHON`, then the row's `command`, then the PATH's. */
export function commandLine(environment, configured) {
  const [executable, ...before] = environment.DSH_MEMORY_COMMAND
    ? [environment.DSH_MEMORY_COMMAND]
    : environment.DSH_MEMORY_PYTHON
      ? [environment.DSH_MEMORY_PYTHON, "-P", "-m", "dsh_memory"]
      : (configured ?? ["dsh-memory"]);
  return [executable, ...before, "serve", "--stdio"];
}

/** The part of an environment that the server may see. */
export function childEnvironment(environment) {
  return Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));
}

/** One server process at a time; `log(level, text)` hears of starts, deaths and the server's own stderr. */
export class MemoryServer {
  #command;
  #environment;
  #log;
  #limits;
  #child;
  #pending = new Map();
  #nextId = 1;
  #failures = 0;
  #lastFailure;
  #retry;
  #stopped = false;
  #exited = Promise.resolve();

  constructor({ command, environment, log, limits = {} }) {
    this.#command = command;
    this.#environment = environment;
    this.#log = log;
    this.#limits = { readyMs: READY_MS, backoffMs: BACKOFF_MS, ...limits };
  }

  start() {
    this.#retry = undefined;
    const [executable, ...args] = this.#command;
    let child;
    try {
      // A group of its own: Ctrl-C in the host's terminal ends the host, and the server then sees EOF and finishes its call.
      child = spawn(executable, args, { cwd: "/", env: this.#environment, detached: true, stdio: "pipe" });
    } catch (error) {
      this.#died(undefined, String(error.message));
      return;
    }
    this.#child = child;
    const deadline = setTimeout(() => {
      child.kill("SIGKILL");
      this.#died(child, `not ready within ${this.#limits.readyMs} ms`);
    }, this.#limits.readyMs);
    this.#exited = new Promise((resolve) => {
      const settle = (reason) => {
        clearTimeout(deadline);
        resolve();
        this.#died(child, reason);
      };
      child.once("error", (error) => settle(String(error.message)));
      // `close` comes after the last line of stdout was read; `exit` alone would lose answers already written.
      child.once("close", (code, signal) => settle(signal ? `ended by ${signal}` : `exit status ${code}`));
    });
    child.stdin.on("error", () => {}); // a write to a dead server: `close` answers the call
    readLines(child.stdout, (line) => this.#frame(child, line, deadline));
    readLines(child.stderr, (line) => this.#log("warn", printable(line.toString("utf8"))));
  }

  /** The `result` of one call; rejects with Unavailable, or with an Error for a JSON-RPC error. */
  call(method, params, { signal, timeoutMs = CALL_MS } = {}) {
    const child = this.#child;
    if (child === undefined) return Promise.reject(new Unavailable("server-down"));
    if (signal?.aborted) return Promise.reject(new Unavailable("cancelled"));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const abandon = (detail) => () => this.#settle(id)?.reject(new Unavailable(detail));
      const cancelled = abandon("cancelled");
      const timer = timeoutMs === Infinity ? undefined : setTimeout(abandon("server-timeout"), timeoutMs);
      const release = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", cancelled);
      };
      signal?.addEventListener("abort", cancelled, { once: true });
      this.#pending.set(id, { resolve, reject, release });
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  }

  /** End the server by EOF on its stdin; one that still writes is not waited for, and ends by itself. */
  async stop() {
    this.#stopped = true;
    clearTimeout(this.#retry);
    const child = this.#child;
    if (child === undefined) return;
    child.stdin.end();
    await Promise.race([this.#exited, new Promise((resolve) => setTimeout(resolve, EXIT_GRACE_MS).unref())]);
    child.unref();
    child.stdout.destroy();
    child.stderr.destroy();
  }

  #settle(id) {
    const call = this.#pending.get(id);
    if (call !== undefined) {
      this.#pending.delete(id);
      call.release();
    }
    return call;
  }

  #frame(child, line, deadline) {
    let frame;
    try {
      frame = JSON.parse(line.toString("utf8"));
    } catch {
      this.#log("warn", `memory server: not a frame: ${printable(line.toString("utf8"))}`);
      return;
    }
    if (frame?.method === "ready") {
      clearTimeout(deadline);
      if (frame.params?.protocol === 1) {
        this.#failures = 0;
        this.#lastFailure = undefined;
        this.#log("info", `memory server ready (${printable(String(frame.params.version))})`);
      } else {
        child.kill("SIGKILL");
        this.#died(child, "speaks another protocol");
      }
      return;
    }
    const call = this.#settle(frame?.id);
    if (call === undefined) return; // the answer to a call that was given up
    if (frame.error === undefined) call.resolve(frame.result);
    else call.reject(new Error(`memory server: ${printable(String(frame.error.message))}`));
  }

  #died(child, reason) {
    if (child !== this.#child) return; // its end was already dealt with
    this.#child = undefined;
    for (const id of [...this.#pending.keys()]) this.#settle(id).reject(new Unavailable("server-down"));
    if (this.#stopped) return;
    const delay = Math.min(this.#limits.backoffMs * 2 ** this.#failures, BACKOFF_CAP_MS);
    this.#failures += 1;
    if (reason !== this.#lastFailure) this.#log("warn", `memory server: ${printable(reason)}; trying again, at most every ${BACKOFF_CAP_MS / 1000} s`);
    this.#lastFailure = reason;
    this.#retry = setTimeout(() => this.start(), delay);
    this.#retry.unref();
  }
}

// node:readline also breaks lines at U+2028 and U+2029, which may stand raw inside a JSON string.
function readLines(stream, onLine) {
  let parts = [];
  stream.on("data", (chunk) => {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      parts.push(chunk.subarray(start, end));
      onLine(Buffer.concat(parts));
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  });
}

function printable(text) {
  return text.slice(0, LOGGED_CHARACTERS).replace(/[^\P{C}\t]/gu, "�");
}
