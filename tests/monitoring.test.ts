import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { parse } from "yaml";
import { colour, filled, panels, timeline } from "./dashboard.ts";

const folder = new URL("../examples/monitoring/", import.meta.url).pathname;
const alerts = join(folder, "alerts.yaml");

/** Part of Debian's package prometheus, which make test installs. */
const absent = !(process.env["PATH"] ?? "").split(delimiter).some(path => existsSync(join(path, "promtool")));

/** Runs promtool on a generated file; returns its error output. */
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
  /** The alerts that fire after half an hour, with their labels. */
  readonly firing: Readonly<Record<string, Readonly<Record<string, string>> | undefined>>;
}

/** Two replicas of the controller, whose reports fire once. */
const replicas = ["10.0.0.1:9733", "10.0.0.2:9733"] as const;
const job = "csimux";

const ofEach = (name: string, labels: string, values: string): Record<string, string> =>
  Object.fromEntries(
    replicas.map(instance => [
      `${name}{${[`job="${job}"`, `instance="${instance}"`, labels].filter(Boolean).join(",")}}`,
      values,
    ]),
  );
const calls = (code: string, values: string): Record<string, string> =>
  ofEach("csimux_calls_total", `method="CreateVolume",connection="nas",code="${code}"`, values);
const build = ofEach("csimux_build_info", 'modes="controller"', "1x60");
const condition = (of: string, reason: string, severity: string, values: string): Record<string, string> =>
  ofEach(
    "csimux_health_conditions",
    `seen_by="controller",of="${of}",connection="nas",storage="",reason="${reason}",severity="${severity}"`,
    values,
  );
const poolFaulted = { seen_by: "controller", of: "storage", connection: "nas", reason: "PoolFaulted", job };

const cases: Readonly<Record<string, Case>> = {
  "a csimux has logged an error": {
    series: {
      ...build,
      [`csimux_log_errors_total{job="csimux",instance="${replicas[0]}"}`]: "0x20 1x40",
      [`csimux_log_errors_total{job="csimux",instance="${replicas[1]}"}`]: "5x60",
    },
    firing: { CsimuxDefect: { severity: "warning", job, instance: replicas[0] } },
  },
  "a csimux does not answer": {
    series: { ...build, [`up{job="csimux",instance="${replicas[0]}"}`]: "0x60" },
    firing: {
      CsimuxDown: { severity: "critical", job, instance: replicas[0] },
      CsimuxControllerAbsent: undefined,
    },
  },
  "the controllers have vanished and only nodes are left": {
    series: { [`csimux_build_info{job="csimux",instance="10.0.0.9:9735",modes="node"}`]: "1x60" },
    firing: { CsimuxControllerAbsent: { severity: "critical" }, CsimuxDown: undefined },
  },
  "a connection has no usable file": {
    series: ofEach("csimux_connection_state", 'connection="nas",state="bad"', "1x60"),
    firing: {
      CsimuxConnectionOutOfService: { severity: "critical", job, connection: "nas", state: "bad" },
      CsimuxConnectionDegraded: undefined,
    },
  },
  "the main file has an unknown key": {
    series: ofEach("csimux_main_file_problem", "", "1x60"),
    firing: { CsimuxMainFileProblem: { severity: "warning", job }, CsimuxConnectionDegraded: undefined },
  },
  "a connection is served from its last valid file": {
    series: ofEach("csimux_connection_state", 'connection="nas",state="degraded"', "1x60"),
    firing: {
      CsimuxConnectionDegraded: { severity: "warning", job, connection: "nas", state: "degraded" },
      CsimuxConnectionOutOfService: undefined,
    },
  },
  "a storage is unavailable": {
    series: ofEach("csimux_connection_unavailable", 'connection="nas"', "1x60"),
    firing: { CsimuxStorageUnavailable: { severity: "critical", job, connection: "nas" } },
  },
  "a storage cannot be checked": {
    series: ofEach("csimux_connection_health_unknown", 'connection="nas"', "1x60"),
    firing: { CsimuxStorageHealthUnknown: { severity: "critical", job, connection: "nas" } },
  },
  "all is well": {
    series: {
      ...build,
      ...ofEach("up", "", "1x60"),
      ...ofEach("csimux_connection_state", 'connection="nas",state="good"', "1x60"),
      ...ofEach("csimux_connection_state", 'connection="nas",state="bad"', "0x60"),
      ...ofEach("csimux_connection_unavailable", 'connection="nas"', "0x60"),
      ...ofEach("csimux_connection_health_unknown", 'connection="nas"', "0x60"),
    },
    firing: {
      CsimuxControllerAbsent: undefined,
      CsimuxDown: undefined,
      CsimuxConnectionOutOfService: undefined,
      CsimuxConnectionDegraded: undefined,
      CsimuxStorageUnavailable: undefined,
      CsimuxStorageHealthUnknown: undefined,
    },
  },
  "a pool has failed": {
    series: condition("storage", "PoolFaulted", "inaccessible", "1x60"),
    firing: { CsimuxInaccessible: { severity: "critical", ...poolFaulted }, CsimuxDegraded: undefined },
  },
  "every call about a connection fails": {
    series: { ...calls("unavailable", "0+1x60"), ...calls("ok", "5x60") },
    firing: { CsimuxConnectionFailing: { severity: "critical", job, connection: "nas" } },
  },
  "some calls about a connection fail": {
    series: { ...calls("unavailable", "0+1x60"), ...calls("ok", "0+1x60") },
    firing: { CsimuxConnectionFailing: undefined },
  },
  "a copy stands still, and another one does not": {
    series: {
      ...ofEach("csimux_copy_stalled", 'from="nas",to="nas2",method="zfs-send"', "1x60"),
      ...ofEach("csimux_copy_stalled", 'from="nas",to="nas3",method="zfs-send"', "0x60"),
    },
    firing: { CsimuxCopyStalled: { severity: "warning", job, from: "nas", to: "nas2", method: "zfs-send" } },
  },
  "csimux is started again and again": {
    series: { [`csimux_start_timestamp_seconds{job="csimux",instance="${replicas[0]}"}`]: "0+300x60" },
    firing: { CsimuxRestarts: { severity: "warning", job, instance: replicas[0] } },
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
  // Only labels are compared; texts may change.
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
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(queries.length).toBeGreaterThan(10);
  const rules = queries.map((expr, index) => ({ record: `query:${index}`, expr: filled(expr) }));
  expect(promtool(["check", "rules"], "queries.json", { groups: [{ name: "dashboard", rules }] })).toBe("");
});

const dead = ["nas1", "nas2", "nas3"] as const;
const ofDead = (name: string, labels: string, values: string): Record<string, string> =>
  Object.assign({}, ...dead.map(each => ofEach(name, `connection="${each}"${labels}`, values))) as Record<
    string,
    string
  >;

/** Values and displayed colours, by situation and panel. */
const shown: Readonly<
  Record<
    string,
    {
      readonly series: Record<string, string>;
      readonly panels: Record<string, readonly [values: readonly number[], string]>;
    }
  >
> = {
  "all storages are dead and their checks fail": {
    series: {
      ...build,
      ...ofDead("csimux_connection_state", ',state="good"', "1x60"),
      ...ofDead("csimux_connection_unavailable", "", "1x60"),
      ...ofDead("csimux_connection_health_unknown", "", "1x60"),
    },
    panels: {
      "Storages unavailable": [[3], "red"],
      Inaccessible: [[0], "green"],
      [timeline]: [[3, 3, 3], "red"],
      Controllers: [[2], "green"],
    },
  },
  "all storages are dead and no call has asked for them": {
    series: {
      ...build,
      ...ofDead("csimux_connection_state", ',state="good"', "1x60"),
      ...ofDead("csimux_connection_unavailable", "", "0x60"),
      ...ofDead("csimux_connection_health_unknown", "", "1x60"),
    },
    panels: { "Storages unavailable": [[3], "red"], [timeline]: [[2, 2, 2], "orange"] },
  },
  "all is well": {
    series: {
      ...build,
      ...ofDead("csimux_connection_state", ',state="good"', "1x60"),
      ...ofDead("csimux_connection_unavailable", "", "0x60"),
      ...ofDead("csimux_connection_health_unknown", "", "0x60"),
      [`csimux_connection_state{job="csimux",instance="10.0.0.9:9735",connection="nas1",state="unknown"}`]: "1x60",
    },
    panels: {
      "Storages unavailable": [[0], "green"],
      "Connections out of service": [[0], "green"],
      Inaccessible: [[0], "green"],
      Degraded: [[0], "green"],
      [timeline]: [[0, 0, 0], "green"],
    },
  },
  "a node knows a connection that no controller has": {
    series: {
      [`csimux_connection_state{job="csimux",instance="10.0.0.9:9735",connection="nas1",state="unknown"}`]: "1x60",
      [`csimux_connection_state{job="csimux",instance="10.0.0.9:9735",connection="nas1",state="good"}`]: "0x60",
    },
    panels: { [timeline]: [[], "green"], Controllers: [[0], "red"] },
  },
};

test.skipIf(absent).each(Object.keys(shown))("the dashboard shows the right colours when %s", name => {
  const { series = {}, panels: wanted = {} } = shown[name] ?? {};
  const promql_expr_test = Object.entries(wanted).map(([title, [values]]) => {
    const expr = panels.find(panel => panel.title === title)?.targets?.[0]?.expr ?? "";
    // Without labels, since only the values have colours.
    return {
      expr: `label_replace(count_values("value", ${filled(expr)}), "value", "$1", "value", "(.*)")`,
      eval_time: "30m",
      exp_samples: [...new Set(values)].map(value => ({
        labels: `{value="${value}"}`,
        value: values.filter(each => each === value).length,
      })),
    };
  });
  const input_series = Object.entries(series).map(([of, values]) => ({ series: of, values }));
  const tests = [{ interval: "1m", input_series, promql_expr_test }];
  expect(promtool(["test", "rules"], "test.json", { rule_files: [], tests })).toBe("");
  for (const [title, [values, wantedColour]] of Object.entries(wanted))
    for (const value of values) expect([title, colour(title, value)]).toEqual([title, wantedColour]);
});

test("each alert links to a section of a page that exists", () => {
  const { groups } = parse(readFileSync(alerts, "utf8")) as {
    groups: { rules: { alert: string; annotations: { runbook_url?: string } }[] }[];
  };
  const links = groups.flatMap(({ rules }) => rules.map(({ alert, annotations }) => [alert, annotations.runbook_url]));
  expect(links.length).toBeGreaterThan(10);
  for (const [alert, link = ""] of links) {
    const [page = "", anchor] = link.split("#");
    const text = readFileSync(join(folder, "..", page), "utf8");
    const anchors = [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, "")
        .replaceAll(" ", "-"),
    );
    expect([alert, anchor === undefined || anchors.includes(anchor)]).toEqual([alert, true]);
  }
});
