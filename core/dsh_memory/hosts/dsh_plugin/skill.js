/** The bundled `memory` skill: `skills/memory/SKILL.md`, listed without a copy in the user's folder. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { BUNDLED_SKILL_RANK } from "@deepseek-ai/dsh-skill";

const FOLDER = new URL("./skills/memory/", import.meta.url);

/** The provider that the host's skill registry asks. */
export function memorySkill() {
  const [, header, content] = /^---\n([^]*?)\n---\n([^]*)$/.exec(readFileSync(new URL("SKILL.md", FOLDER), "utf8"));
  const field = (name) => new RegExp(`^${name}: (.*)$`, "m").exec(header)[1];
  const skill = {
    name: field("name"),
    description: field("description"),
    invocation: { modelInvocable: true, userInvocable: true },
    provider: "dsh-memory",
    source: "bundled",
    resourceBase: { kind: "directory", path: fileURLToPath(FOLDER) },
  };
  return {
    name: "dsh-memory",
    list: async () => [{ ...skill, rank: BUNDLED_SKILL_RANK, locator: FOLDER }],
    get: async () => ({ ...skill, content }),
  };
}
