/** `/memory`: what is remembered, for the person at the host; it reads and changes nothing. */

import { envelope } from "./remote.js";

const USAGE = "Usage: /memory [status | search <words> | previews]";

/** The command's definition over one server. */
export function memoryCommand(server) {
  return {
    name: "memory",
    description: "Show what the agent remembers: status, search, previews",
    input: { hint: "status | search <words> | previews" },
    async handler({ rawInput, signal }) {
      const [, word, rest] = /^(\S*)\s*([^]*)$/.exec(rawInput.trim());
      const show = SHOWN[word === "" ? "status" : word];
      if (show === undefined || (word === "search" && rest === "")) return { kind: "error", text: USAGE };
      const { method, params, lines } = show(rest);
      const answer = await envelope(server, method, params, { signal });
      if (!answer.ok) return { kind: "error", text: `memory: ${answer.error.code}` };
      return { kind: "success", text: lines(answer.value).map(oneLine).join("\n") };
    },
  };
}

const SHOWN = {
  status: () => ({
    method: "memory.status",
    params: {},
    lines: (value) => [
      value.empty ? "Memory is empty." : `${value.dataFileCount} files remembered.`,
      ...(value.targetDirty ? ["Some edits are not saved yet: dsh-memory save"] : []),
      ...(value.legacyFileCount > 0 ? [`${value.legacyFileCount} records have no front matter yet.`] : []),
      ...(value.lastRun ? [`Last run ${value.lastRun.runId}: ${value.lastRun.status}.`] : []),
      ...(value.pendingPreview ? [`Preview ${value.pendingPreview.preview_id} waits for a decision.`] : []),
    ],
  }),
  search: (query) => ({
    method: "memory.search",
    params: { query, limit: 10 },
    lines: (value) => [
      value.count === 0 ? "No record matches." : `${value.count} match.`,
      ...value.results.map((hit) => `${hit.citation} ${hit.snippet}`),
    ],
  }),
  previews: () => ({
    method: "memory.previews",
    params: {},
    lines: (value) =>
      value.previews.length === 0
        ? ["No preview waits for a decision."]
        : value.previews.map((each) => `${each.preview_id}: ${each.changed_paths.join(", ")}`),
  }),
};

// Record text is foreign: control and format characters stay visible and one entry stays one line.
function oneLine(text) {
  return text.replace(/\p{C}/gu, "�");
}
