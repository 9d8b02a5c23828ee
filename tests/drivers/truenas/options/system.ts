import { expect } from "bun:test";
import { checkRequest, wrongAnswer } from "../../../fakes/truenas/facts/check.ts";
import { CallError, Invalid } from "../../../fakes/truenas/failure.ts";
import { methodOf } from "../../../fakes/truenas/methods.ts";
import { freshState, type Nas } from "../../../fakes/truenas/state.ts";
import { numberOf, type Version } from "../../../fakes/truenas/versions.ts";

/** A new system of this version, whose methods are asked without a connection. Each answer must fit the facts. */
export function systemOf(version: Version, more: Partial<Nas> = {}) {
  const nas: Nas = {
    version,
    number: numberOf(version),
    state: freshState(),
    busy: new Set(),
    receiving: new Set(),
    breaks: () => false,
    sent: () => undefined,
    sessions: new Set(),
    fullAdmin: true,
    now: () => 1_700_000_000,
    readRows: () => undefined,
    ...more,
  };
  /** What a method answers, or what is said instead. */
  const ask = (method: string, ...params: readonly unknown[]): unknown => {
    try {
      checkRequest(version, method, params);
      const answer = methodOf(nas.number, method)?.run(nas, params);
      expect(wrongAnswer(version, method, answer, params)).toEqual([]);
      return answer;
    } catch (error) {
      if (error instanceof Invalid) return error.extra.map(([, message, errno]) => `${errno} ${message}`).join("; ");
      if (error instanceof CallError) return `${error.errname} ${error.message}`;
      throw error;
    }
  };
  const make = (name: string, more: object = {}) => ask("pool.dataset.create", { name, type: "FILESYSTEM", ...more });
  const zvol = (name: string) => make(name, { type: "VOLUME", volsize: 2 ** 30, sparse: true });
  return { nas, ask, make, zvol };
}
