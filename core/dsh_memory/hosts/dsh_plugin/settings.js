/** `memory.enabled` over the host's settings service, which owns settings.yaml, its lock and its watch. */

import z from "@deepseek-ai/schemastery";
import { settingsNamespace } from "@deepseek-ai/dsh-settings";

import { failure } from "./remote.js";

// `no` and `off` are texts to the host's YAML; a person who writes them means what they say.
const WORDS = { false: false, no: false, off: false, true: true, yes: true, on: true };
const SCHEMA = z.object({
  enabled: z
    .union([z.boolean(), z.transform(z.union(Object.keys(WORDS)), (word) => WORDS[word])])
    .default(true)
    .description("Give the agent its memory: the prompt section, and the summary in it."),
});

/** The setting of one host: read, written, and off while it cannot be read. */
export class MemorySettings {
  #ctx;
  #scope;

  constructor(ctx) {
    this.#ctx = ctx;
    this.#open();
  }

  get enabled() {
    return this.#open()?.get().enabled ?? false;
  }

  read() {
    const scope = this.#open();
    return scope === undefined ? failure("settings-unavailable") : { ok: true, value: { enabled: scope.get().enabled } };
  }

  async write(request) {
    if (typeof request.enabled !== "boolean") return failure("settings-invalid-request");
    const scope = this.#open();
    if (scope === undefined) return failure("settings-unavailable");
    try {
      await scope.update({ enabled: request.enabled });
    } catch (error) {
      this.#ctx.logger.warn(error);
      return failure("settings-write-failed");
    }
    return { ok: true, value: { enabled: request.enabled } };
  }

  // A stored section that the schema refuses fails the registration, not the plugin: it is tried again once somebody asks.
  #open() {
    try {
      this.#scope ??= this.#ctx.settings.register(settingsNamespace("memory"), SCHEMA);
    } catch (error) {
      this.#ctx.logger.warn("memory settings cannot be read: %s", error.message);
    }
    return this.#scope;
  }
}
