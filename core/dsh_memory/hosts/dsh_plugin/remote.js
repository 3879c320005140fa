/** The `memory` namespace: settings answered here, since the host owns settings.yaml, all else forwarded. */

import { Remote, TypertRemoteService } from "@deepseek-ai/dsh-typert-protocol";

import { Unavailable } from "./server.js";

const WITHOUT_REQUEST = ["status", "health", "legacyRecords", "previews"];
const READING = ["runs", "search", "context"];
const MUTATING = ["clear", "migrateLegacy", "rollback", "applyPreview", "discardPreview"];

/** The contract's failure envelope. */
export function failure(code, detail) {
  return { ok: false, error: detail === undefined ? { code } : { code, detail } };
}

/** Ask the server for a contract method's envelope; no server is `repo-unavailable`. */
export async function envelope(server, method, params, options) {
  try {
    return await server.call(method, params, options);
  } catch (error) {
    if (error instanceof Unavailable) return failure("repo-unavailable", error.detail);
    throw error;
  }
}

/** The service class that the gateway exports, over one server and one settings holder. */
export function memoryRemote(server, settings) {
  const initializers = [];

  class Memory extends TypertRemoteService {
    constructor(ctx) {
      super(ctx, "memory");
      for (const initialize of initializers) initialize.call(this);
    }
    getSettings() {
      return settings.read();
    }
    setEnabled(request) {
      return settings.write(requestObject(request));
    }
  }

  // The gateway reads parameter names from a function's source: `request`, or nothing.
  for (const name of WITHOUT_REQUEST) {
    Memory.prototype[name] = function () {
      return envelope(server, `memory.${name}`, {});
    };
  }
  for (const name of [...READING, ...MUTATING]) {
    // A mutating call is never given up while the server lives: its outcome would be unknown.
    const options = MUTATING.includes(name) ? { timeoutMs: Infinity } : {};
    Memory.prototype[name] = function (request) {
      return envelope(server, `memory.${name}`, requestObject(request), options);
    };
  }

  for (const name of ["getSettings", "setEnabled", ...WITHOUT_REQUEST, ...READING, ...MUTATING]) {
    // What `@Remote(name)` compiles to; Node has no decorator syntax.
    Remote(name)(Memory.prototype[name], {
      kind: "method",
      name,
      static: false,
      private: false,
      addInitializer: (initialize) => initializers.push(initialize),
    });
  }
  return Memory;
}

function requestObject(request) {
  if (request === undefined || request === null) return {};
  if (typeof request !== "object" || Array.isArray(request)) throw new TypeError("request must be an object");
  return request;
}
