/**
 * Memory for the DSH host: a thin layer over `dsh-memory serve --stdio`, where all of the work is done.
 *
 * The @deepseek-ai packages are the host's own: every profile resolves them from the host's installation.
 */

import { memoryCommand } from "./command.js";
import { memoryRemote } from "./remote.js";
import { childEnvironment, commandLine, MemoryServer, Unavailable } from "./server.js";
import { MemorySettings } from "./settings.js";
import { memorySkill } from "./skill.js";
import { memoryTools } from "./tools.js";

const SECTION_MS = 5_000;

export const name = "memory";
export const inject = ["settings"];

/** Register everything; `config.command` is the argument list of an installed `dsh-memory`. */
export function apply(ctx, config) {
  const server = new MemoryServer({
    command: commandLine(process.env, config?.command),
    environment: childEnvironment(process.env),
    log: (level, text) => ctx.logger[level]("%s", text),
  });
  const settings = new MemorySettings(ctx);
  ctx.effect(() => {
    server.start();
    return () => server.stop();
  }, "memory server");
  ctx.plugin(memoryRemote(server, settings));
  ctx.inject(["tools"], (host) => {
    for (const tool of memoryTools(server)) host.tools.register(tool);
  });
  ctx.inject(["commands"], (host) => void host.commands.register(memoryCommand(server)));
  ctx.inject(["skills"], (host) => void host.skills.registerProvider(memorySkill));
  ctx.inject(["systemPrompt"], (host) => {
    // The section's own text is a strict template: a memory that holds `{{x}}` may only come in as a variable's value.
    host.systemPrompt.variable("dsh_memory_section", () => "");
    host.systemPrompt.section({ name: "memory", order: 50, text: "{{dsh_memory_section}}" });
    host.on("system-prompt/assemble", async (assembly, context, next) => {
      assembly.variables.dsh_memory_section = await promptSection(ctx, server, settings, context.signal);
      return next();
    });
  });
}

// Asked at each assembly, so that a changed summary or setting is in the very next model call, and a cleared one is not.
// No failure here may cost the model its turn.
async function promptSection(ctx, server, settings, signal) {
  if (!settings.enabled) return "";
  try {
    const answer = await server.call("host.promptSection", { enabled: true }, { signal, timeoutMs: SECTION_MS });
    return answer.ok ? answer.value.text : "";
  } catch (error) {
    if (!(error instanceof Unavailable)) ctx.logger.warn(error);
    return "";
  }
}
