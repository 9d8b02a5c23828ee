import { describe, expect, test } from "bun:test";
import { checkRequest, wrongAnswer } from "../../../fakes/truenas/facts/check.ts";
import { factsOf } from "../../../fakes/truenas/facts/facts.ts";
import { Invalid } from "../../../fakes/truenas/failure.ts";
import { versionsWithFacts } from "../../../fakes/truenas/versions.ts";

// What the double takes and answers is compared with what the middleware's own models say.

/** What a version says about a request; empty: it takes it. */
function said(version: string, method: string, ...params: readonly unknown[]): readonly string[] {
  try {
    checkRequest(version, method, params);
    return [];
  } catch (error) {
    if (error instanceof Invalid) return error.extra.map(([attribute, message]) => `${attribute}: ${message}`);
    throw error;
  }
}

const share = { path: "/mnt/tank/a", networks: ["10.0.0.0/24"], hosts: [], ro: false, maproot_user: "root" };

describe.each(versionsWithFacts)("TrueNAS %s", version => {
  test("has facts with the tag of their source", () => expect(factsOf(version)?.tag).toMatch(/^TS-\d\d\.\d/));

  test("takes a share of NFS, and refuses one with an unknown field, a wrong type or without its path", () => {
    const create = (data: object) => said(version, "sharing.nfs.create", data);
    expect(create(share)).toEqual([]);
    expect(create({ ...share, mapRootUser: "root" })).toEqual([expect.stringMatching(/mapRootUser: (?:Extra|Field)/)]);
    expect(create({ ...share, ro: "no" })).toEqual([expect.stringMatching(/ro: Input should be a valid bool/)]);
    expect(create({ ...share, path: undefined })).toEqual([expect.stringMatching(/path: Field required/)]);
  });

  test("refuses fewer and more arguments than a method has", () => {
    // The models before 25.10 have a default for each argument.
    const fewer = said(version, "pool.dataset.update", "tank/a").length;
    expect(fewer).toBe(version === "24.10" || version === "25.04" ? 0 : 1);
    expect(said(version, "pool.dataset.update", "tank/a", {}, {})).toEqual([": Too many arguments"]);
  });
});

test("fields that a version does not have are refused there: snapshots in shares came with 25.04", () => {
  const data = { ...share, expose_snapshots: true };
  expect(versionsWithFacts.map(version => said(version, "sharing.nfs.create", data).length)).toEqual([1, 0, 0, 0]);
});

test("words, numbers in limits and names in limits are compared", () => {
  const host = (hostnqn: string) => said("25.10", "nvmet.host.create", { hostnqn });
  expect([host("nqn.2024-01.org.example:a"), host("nqn.node1").length]).toEqual([[], 1]);
  const extent = (blocksize: number) => said("25.10", "iscsi.extent.create", { name: "a", disk: "zvol/a", blocksize });
  expect([extent(512), extent(513).length]).toEqual([[], 1]);
});

test("an answer with a missing, additional or wrongly typed field, or a null where none is allowed, does not fit", () => {
  const good = { id: 1, target: 1, extent: 1, lunid: 0 };
  const wrong = (answer: object) => wrongAnswer("25.10", "iscsi.targetextent.create", answer);
  expect(wrong(good)).toEqual([]);
  const cases = [
    { ...good, more: 1 },
    { ...good, id: "1" },
    { ...good, id: null },
    { target: 1, extent: 1, lunid: 0 },
  ];
  expect(cases.map(each => wrong(each).length)).toEqual([1, 1, 1, 1]);
});
