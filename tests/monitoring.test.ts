import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parse } from "yaml";

const folder = new URL("../examples/monitoring/", import.meta.url).pathname;
const alerts = join(folder, "alerts.yaml");

/** Debian's package prometheus has it; .ci/run installs it. */
const absent = !(process.env["PATH"] ?? "").split(delimiter).some(path => existsSync(join(path, "promtool")));

/** Runs promtool on a file of its own making; answers what it complains about. */
function promtool(what: readonly string[], name: string, content: unknown): string {
  const work = mkdtempSync(join(tmpdir(), "csimux-promtool-"));
  try {
    writeFileSync(join(work, name), JSON.stringify(content));
    const { status, stdout, stderr } = spawnSync("promtool", [...what, join(work, name)], { encoding: "utf8" });
    return status === 0 ? "" : `${stdout}${stderr}` || `exit code ${status}`;
  } finally {
    rmSync(work, { recursive: true });
  }
}

interface Case {
  /** Series by name and labels, with values a minute apart as promtool writes them. */
  readonly series: Readonly<Record<string, string>>;
  /** What is firing after half an hour, by alert: the labels that it has. */
  readonly firing: Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;
}

const instance = "10.0.0.1:9733";
const at = (name: string, labels: string): string => `${name}{job="csimux",instance="${instance}",${labels}}`;
const calls = (code: string): string =>
  at("csimux_calls_total", `method="CreateVolume",connection="nas",code="${code}"`);

const cases: Readonly<Record<string, Case>> = {
  "csimux does not answer": {
    series: { [`up{job="csimux",instance="${instance}"}`]: "0x60" },
    firing: { CsimuxAbsent: { severity: "critical", job: "csimux", instance } },
  },
  "a connection has no usable file": {
    series: { [at("csimux_connection_state", 'connection="nas",state="bad"')]: "1x60" },
    firing: {
      CsimuxConnectionOutOfService: { severity: "critical", job: "csimux", instance, connection: "nas", state: "bad" },
      CsimuxConnectionDegraded: undefined,
    },
  },
  "a connection is served from its last good file": {
    series: { [at("csimux_connection_state", 'connection="nas",state="degraded"')]: "1x60" },
    firing: {
      CsimuxConnectionDegraded: { severity: "warning", job: "csimux", instance, connection: "nas", state: "degraded" },
      CsimuxConnectionOutOfService: undefined,
    },
  },
  "a storage is away": {
    series: { [at("csimux_connection_unavailable", 'connection="nas"')]: "1x60" },
    firing: { CsimuxStorageUnavailable: { severity: "critical", job: "csimux", instance, connection: "nas" } },
  },
  "every call about a connection fails": {
    series: { [calls("unavailable")]: "0+1x60", [calls("ok")]: "5x60" },
    firing: { CsimuxConnectionFailing: { severity: "critical", instance, connection: "nas" } },
  },
  "some calls about a connection fail": {
    series: { [calls("unavailable")]: "0+1x60", [calls("ok")]: "0+1x60" },
    firing: { CsimuxConnectionFailing: undefined },
  },
  "csimux is started again and again": {
    series: { [`csimux_start_timestamp_seconds{job="csimux",instance="${instance}"}`]: "0+300x60" },
    firing: { CsimuxRestarts: { severity: "warning", job: "csimux", instance } },
  },
};

test.skipIf(absent)("promtool takes the alert rules", () => {
  const { status, stdout } = spawnSync("promtool", ["check", "rules", alerts], { encoding: "utf8" });
  expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
  expect(status).toBe(0);
});

test.skipIf(absent).each(Object.keys(cases))("the alerts are right when %s", name => {
  const { series = {}, firing = {} } = cases[name] ?? {};
  const alert_rule_test = Object.entries(firing).map(([alertname, labels]) => ({
    eval_time: "30m",
    alertname,
    exp_alerts: labels === undefined ? [] : [{ exp_labels: labels }],
  }));
  const input_series = Object.entries(series).map(([of, values]) => ({ series: of, values }));
  const rules = parse(readFileSync(alerts, "utf8")) as { groups: { rules: { annotations?: object }[] }[] };
  // The labels are what is looked at here: the words are for people, and may change.
  for (const { rules: all } of rules.groups) for (const rule of all) delete rule.annotations;
  const work = mkdtempSync(join(tmpdir(), "csimux-alerts-"));
  try {
    writeFileSync(join(work, "rules.json"), JSON.stringify(rules));
    const tests = [{ interval: "1m", input_series, alert_rule_test }];
    expect(promtool(["test", "rules"], "test.json", { rule_files: [join(work, "rules.json")], tests })).toBe("");
  } finally {
    rmSync(work, { recursive: true });
  }
});

test.skipIf(absent)("promtool takes every query of the dashboard", () => {
  const { panels } = JSON.parse(readFileSync(join(folder, "dashboard.json"), "utf8")) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(queries.length).toBeGreaterThan(10);
  const rules = queries.map((expr, index) => ({
    record: `query:${index}`,
    expr: expr.replaceAll("$__rate_interval", "5m"),
  }));
  expect(promtool(["check", "rules"], "queries.json", { groups: [{ name: "dashboard", rules }] })).toBe("");
});
