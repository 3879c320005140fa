// Runs one scenario of MemoryServer against a scripted process and writes what happened as one JSON line.
// argv: server.js URL, scenario, python, scripted_server.py

const [module, scenario, python, script] = process.argv.slice(2);
const { MemoryServer, Unavailable, childEnvironment, commandLine } = await import(module);

const logs = [];

function server(behaviour, limits = { backoffMs: 10 }, command = [python, script, behaviour]) {
  const made = new MemoryServer({
    command,
    environment: { PATH: process.env.PATH },
    log: (level, text) => logs.push(`${level}: ${text}`),
    limits,
  });
  made.start();
  return made;
}

const outcome = (promise) =>
  promise.then(
    (result) => ({ result }),
    (error) => (error instanceof Unavailable ? { unavailable: error.detail } : { error: error.message }),
  );

async function untilAnswered(memory) {
  for (;;) {
    const answer = await outcome(memory.call("again", {}));
    if (answer.result !== undefined) return answer;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const SCENARIOS = {
  async answers() {
    const memory = server("plain");
    const text = "a\u2028b\u2029c\u0085d";
    const first = memory.call("hold", { n: 1 });
    const second = memory.call("hold", { n: 2 });
    await memory.call("release", {});
    const answers = { first: (await first).params, second: (await second).params };
    answers.text = (await memory.call("say", { text })).params.text === text;
    answers.garbage = (await memory.call("garbage", {})).asked;
    answers.error = await outcome(memory.call("error", {}));
    answers.long = (await memory.call("say", { text: "x".repeat(5_000_000) })).params.text.length;
    await memory.stop();
    return answers;
  },
  async death() {
    const memory = server("plain");
    const before = (await memory.call("say", {})).pid;
    const inFlight = [outcome(memory.call("hold", {})), outcome(memory.call("die", {}))];
    const cut = await Promise.all(inFlight);
    const inBackOff = await outcome(memory.call("say", {}));
    const after = (await untilAnswered(memory)).result.pid;
    await memory.stop();
    return { cut, inBackOff, sameProcess: before === after };
  },
  async silent() {
    const memory = server("silent", { readyMs: 100, backoffMs: 60_000 });
    const waiting = await outcome(memory.call("say", {}));
    const later = await outcome(memory.call("say", {}));
    return { waiting, later };
  },
  async otherProtocol() {
    const memory = server("other-protocol", { backoffMs: 60_000 });
    return { call: await outcome(memory.call("hold", {})) };
  },
  async missing() {
    const memory = server("", { backoffMs: 60_000 }, ["/nonexistent/dsh-memory"]);
    const waiting = await outcome(memory.call("say", {}));
    return { waiting, later: await outcome(memory.call("say", {})) };
  },
  async givenUp() {
    const memory = server("plain");
    const controller = new AbortController();
    const cancelled = outcome(memory.call("hold", {}, { signal: controller.signal }));
    controller.abort();
    const late = outcome(memory.call("hold", {}, { timeoutMs: 20 }));
    const result = { cancelled: await cancelled, late: await late };
    result.born = await outcome(memory.call("hold", {}, { signal: controller.signal }));
    // the held answers come now, and nobody asks for them any more
    result.after = (await memory.call("release", {})).asked;
    await memory.stop();
    return result;
  },
  async stop() {
    const memory = server("plain");
    const { pid } = await memory.call("say", {});
    await memory.stop();
    let alive = true;
    try {
      process.kill(pid, 0);
    } catch {
      alive = false;
    }
    return { alive, call: await outcome(memory.call("say", {})) };
  },
  async backOff() {
    const starts = [];
    const memory = server("", { backoffMs: 8 }, ["/nonexistent/dsh-memory"]);
    const start = memory.start.bind(memory);
    memory.start = () => {
      starts.push(performance.now());
      start();
    };
    while (starts.length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
    return { gaps: starts.slice(1).map((at, index) => at - starts[index]) };
  },
  async environment() {
    const command = ["/opt/python", "-P", "-m", "dsh_memory"];
    return {
      configured: commandLine({}, command),
      path: commandLine({}, undefined),
      python: commandLine({ DSH_MEMORY_PYTHON: "/p" }, command),
      command: commandLine({ DSH_MEMORY_PYTHON: "/p", DSH_MEMORY_COMMAND: "/c" }, command),
      ignored: commandLine({ MEMORY_COMMAND: "/evil", PYTHON: "/evil" }, command),
      passed: childEnvironment(JSON.parse(process.env.GIVEN)),
    };
  },
};

const value = await SCENARIOS[scenario]();
process.stdout.write(JSON.stringify({ ...value, logs }) + "\n");
