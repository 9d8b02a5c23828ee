import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { root } from "../../scripts/spawned.ts";

function testPeers(more: Readonly<Record<string, string>>) {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("PEER_"));
  const { status, stdout } = spawnSync(process.execPath, [join(root, "scripts/peers.ts")], {
    env: { ...Object.fromEntries(own), ...more, PROGRAM: program },
    encoding: "utf8",
  });
  return { status, lines: stdout.trim().split("\n") };
}

/** A client that makes a dataset, and deletes it when told to. */
const program = `
  const { TRUENAS_HOST, TRUENAS_PORT, TRUENAS_API_KEY, NAME, DELETES } = process.env;
  const datasets = \`http://\${TRUENAS_HOST}:\${TRUENAS_PORT}/api/v2.0/pool/dataset\`;
  const headers = { authorization: \`Bearer \${TRUENAS_API_KEY}\`, "content-type": "application/json" };
  const answers = [await fetch(datasets, { method: "POST", headers, body: JSON.stringify({ name: NAME }) })];
  if (DELETES) answers.push(await fetch(\`\${datasets}/id/\${encodeURIComponent(NAME)}\`, { method: "DELETE", headers }));
  process.exit(answers.every(({ ok }) => ok) ? 0 : 1);
`;

const client = (name: string, deletes: boolean): string =>
  `NAME=${name} DELETES=${deletes ? 1 : ""} '${process.execPath}' -e "$PROGRAM"`;

test("without a client `make test-peers` says in one line that it is skipped", () => {
  const { status, lines } = testPeers({});
  expect(status).toBe(0);
  expect(lines).toEqual([expect.stringMatching(/^skip test-peers: .*CONTRIBUTING\.md/)]);
}, 60_000);

test("each client gets a double of its version, and what it leaves there is a failure", () => {
  const { status, lines } = testPeers({
    PEER_CLEAN_24_10: `test "$TRUENAS_VERSION" = 24.10 && ${client("tank/volumes/v", true)}`,
    PEER_LEAVING_24_10: client("tank/lost", false),
    PEER_FAILING_25_10: "exit 3",
    PEER_IDLE_25_10: "true",
    PEER_SYNOLOGY_CSI_DSM_7: 'test "$DSM_VERSION $DSM_USERNAME" = "7 csi"',
  });
  expect(lines.toSorted()).toEqual([
    "FAIL failing on TrueNAS 25.10: exit code 3",
    "FAIL idle on TrueNAS 25.10: it has not asked the double for anything",
    "FAIL leaving on TrueNAS 24.10: it has left tank/lost",
    "FAIL synology-csi on DSM 7: it has not asked the double for anything",
    "ok   clean on TrueNAS 24.10",
  ]);
  expect(status).toBe(1);
}, 60_000);

test("a version that the double cannot be is refused by name", () => {
  expect(testPeers({ PEER_ANY_19_10: "true" })).toMatchObject({ status: 1 });
}, 60_000);
