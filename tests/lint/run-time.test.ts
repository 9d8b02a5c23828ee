import { expect, test } from "bun:test";
import { isHealthy } from "../../cmd/status/problems.ts";
import { readMain } from "../../lib/daemon/main-file.ts";
import { opener } from "../../lib/daemon/opener.ts";
import type { DriverPorts } from "../../lib/drivers/module.ts";
import { nameOf } from "../../lib/lint/document.ts";
import { rules } from "../../lib/lint/rules/index.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { openRouter } from "../../lib/mux/router.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { statusOf } from "../../lib/observe/status.ts";
import { defectOf } from "../../lib/schema/suppress.ts";
import { noDefaults } from "../config/reading.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { check } from "./checking.ts";
import type { Example } from "./examples/files.ts";
import { examples } from "./examples/index.ts";

/** Errors that the files of a running csimux cannot have, or whose files it does not compare, by the reason. */
const notAtRunTime: Readonly<Record<string, readonly string[]>> = {
  "objects of Kubernetes and values of charts": [
    ...["class-driver", "class-without-connection", "class-connection-missing", "class-expansion", "class-topology"],
    ...["parameter-value", "unknown-parameter", "parameter-pair", "fstype-given-twice", "fstype-impossible"],
    ...["volume-handle", "volume-attributes", "attach-required", "workload-secret", "kustomize-file-missing"],
    ...["helm-folder-not-mounted", "helm-topology-gate", "helm-local-driver", "helm-config", "helm-image"],
    ...["helm-local-volume", "secret-entry"],
  ],
  "files that csimux does not read, or that have no name for it": [
    ...["nothing-to-check", "several-main-files", "file-not-read", "bad-connection-name"],
  ],
  "connections compared with each other and with the main file, which validate alone does": [
    ...["shared-storage", "legacy-connection-missing", "group-member-missing"],
    ...["group-name-taken", "copy-connection-missing", "topology-not-configured", "topology-key-unknown"],
    ...["topology-value-unknown", "local-needs-node-topology"],
  ],
  "refused by the folder of connection files": ["duplicate-connection"],
  "rules of topology, which only nodes evaluate": ["unknown-placeholder", "topology-pattern", "reserved-prefix"],
  "served like democratic-csi does": ["chap-not-asked-for"],
};
const left = new Set(Object.values(notAtRunTime).flat());

const resolver = { env: () => undefined, file: () => undefined };
const facts = { name: "c.example", version: "1", commit: "a", modes: ["controller"], node: undefined, started: 0 };

/** What `serve` and `status` say of the files: why the main file is not right, and the states of the connections. */
async function atRunTime(files: Example) {
  const { log } = testCall();
  const main = files["proxy.yaml"];
  const read = main === undefined ? undefined : await readMain("proxy.yaml", main, resolver);
  const mainProblem = read && (read.config ? defectOf(main ?? "", read.diagnostics) : "invalid");
  const defaults = read?.config?.defaults ?? noDefaults;
  const texts = new Map(Object.entries(files).map(([file, text]) => [nameOf(file), text]));
  texts.delete("proxy");
  // Nothing is run: a driver is only opened.
  const ports = { local: { runner: {} } } as unknown as DriverPorts;
  const options = { main: () => ({ defaults, single: undefined }), prefix: "p.example", resolver, ports, log };
  const connections = new Connections(
    { names: async () => [...texts.keys()], read: async name => texts.get(name), labels: async () => undefined },
    async () => opener({ ...options, ownSegments: undefined }),
    () => defaults,
    { kind: "none" },
    log,
  );
  await connections.survey();
  const settings = () => ({
    policy: { match: "lenient", report: "all", honourPreferred: "off", prefix: "p.example" } as const,
    ...{ legacyConnection: undefined, single: undefined, listing: "complete" as const, isMapped: () => false },
  });
  const router = openRouter({ connections, configured: async () => new Map(), settings, log });
  const status = statusOf(facts, { mux: router.overview(new Map()), mainProblem }, new CallTracker());
  await router.stop(0);
  const states = status.connections.map(({ file }) => file?.state);
  // No storage was checked.
  const checked = status.connections.map(each => ({ ...each, state: each.file?.state ?? ("unknown" as const) }));
  return { mainProblem, states, isHealthy: isHealthy({ ...status, connections: checked }) };
}

const errors = rules.filter(({ severity, online, id }) => severity === "error" && !online && !left.has(id));

test("the errors that are not judged at run time are rules", () => {
  expect([...left].filter(id => !rules.some(rule => rule.id === id))).toEqual([]);
});

test.each(errors.map(({ id }) => id))("%s: validate, serve and status agree that the file is not good", async id => {
  const files = examples[id]?.bad ?? {};
  expect(check(files).some(({ rule, severity }) => rule === id && severity === "error")).toBe(true);
  const found = await atRunTime(files);
  expect(found.mainProblem !== undefined || found.states.some(state => state !== "good")).toBe(true);
  expect(found.isHealthy).toBe(false);
});
