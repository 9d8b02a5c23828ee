import { Counter, Gauge, Histogram, type OpenMetricsContentType, Registry } from "prom-client";
import type { CallObserver, CommandObserver } from "../core/observer.ts";
import type { ConnectionStatus, Status } from "./status.ts";

/** Buckets in seconds: a call takes from a millisecond to an hour (a copy). */
const callBuckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 300];
const commandBuckets = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120];

const states = ["good", "degraded", "bad", "gone", "unknown"] as const;

/** Observers that count events, and the page for a scrape. */
export interface Metrics {
  readonly calls: CallObserver;
  readonly commands: CommandObserver;
  readonly contentType: string;
  /** The page. Gauges are set from `status`, which sends no request to any storage system. */
  text(status: Status): Promise<string>;
}

/** The metrics of one process in the text format of OpenMetrics 1.0. `errors` returns the number of errors logged. */
export function openMetrics(errors: () => number): Metrics {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  // The library's metrics are typed for its older text format only; they are the same for both.
  const registers = [registry as unknown as Registry];
  const { calls, commands } = counted(registers);
  new Counter({
    name: "csimux_log_errors",
    help: "Log lines of level error; each is a defect.",
    registers,
    collect() {
      this.reset();
      this.inc(errors());
    },
  });
  const show = gauges(registers);
  const copies = copyFigures(registers);
  return {
    calls,
    commands,
    contentType: registry.contentType,
    text: status => {
      show(status);
      copies(status);
      return registry.metrics();
    },
  };
}

function counted(registers: Registry[]): Pick<Metrics, "calls" | "commands"> {
  const ended = new Counter({
    name: "csimux_calls",
    help: "CSI calls that ended, by method, connection or group, and code.",
    labelNames: ["method", "connection", "code"],
    registers,
  });
  const took = new Histogram({
    name: "csimux_call_duration_seconds",
    help: "Duration of CSI calls.",
    labelNames: ["method", "connection"],
    buckets: callBuckets,
    registers,
  });
  const ran = new Histogram({
    name: "csimux_command_duration_seconds",
    help: "Duration of commands, on this machine or on a storage host; a script over ssh counts once.",
    labelNames: ["where", "program", "outcome"],
    buckets: commandBuckets,
    registers,
  });
  return {
    calls: ({ method }) => {
      return ({ connection = "", code, seconds }) => {
        ended.inc({ method, connection, code });
        took.observe({ method, connection }, seconds);
      };
    },
    commands: ({ where, program, outcome, seconds }) => ran.observe({ where, program, outcome }, seconds),
  };
}

/** One figure of each connection; undefined if unknown. */
type ConnectionFigure = readonly [
  name: string,
  help: string,
  value: (connection: ConnectionStatus) => number | undefined,
];

const seconds = (time: string | undefined): number | undefined =>
  time === undefined ? undefined : Date.parse(time) / 1000;

const figures: readonly ConnectionFigure[] = [
  ["csimux_connection_suspended", "1 while a connection accepts no new volumes.", each => Number(each.suspended)],
  ["csimux_connection_calls_in_progress", "Calls that use the connection now.", each => each.inUse],
  [
    "csimux_connection_unavailable",
    "1 while the storage system is unreachable and calls that need it are refused; absent if unknown.",
    each => (each.state === "unknown" ? undefined : Number(each.outage !== undefined)),
  ],
  [
    "csimux_connection_state_since_timestamp_seconds",
    "When the connection's file entered its state.",
    each => seconds(each.file?.since),
  ],
  [
    "csimux_connection_last_success_timestamp_seconds",
    "When a call last succeeded.",
    each => seconds(each.lastSuccess?.at),
  ],
  [
    "csimux_connection_last_failure_timestamp_seconds",
    "When a call last failed.",
    each => seconds(each.lastFailure?.at),
  ],
  [
    "csimux_connection_free_bytes",
    "Bytes available for a new volume, as of the last query.",
    each => each.freeBytes?.value,
  ],
  [
    "csimux_connection_free_bytes_timestamp_seconds",
    "When the free bytes were last queried.",
    each => seconds(each.freeBytes?.at),
  ],
  ["csimux_connection_volumes", "Volumes in the last complete listing.", each => each.volumes?.value],
];

/** The number of subjects per condition, by their common labels. */
function tally(health: Status["health"]) {
  const counts = new Map<string, { readonly labels: Labels; count: number }>();
  for (const { seenBy, of, connection = "", storage = "", reason, severity } of health) {
    const labels = { seen_by: seenBy, of, connection, storage, reason, severity };
    const key = JSON.stringify(labels);
    const known = counts.get(key) ?? { labels, count: 0 };
    counts.set(key, { labels, count: known.count + 1 });
  }
  return [...counts.values()];
}

const healthLabels = ["seen_by", "of", "connection", "storage", "reason", "severity"] as const;
type Labels = Record<(typeof healthLabels)[number], string>;

const copyLabels = ["from", "to", "method"] as const;

/** The copies between connections. */
function copyFigures(registers: Registry[]): (status: Status) => void {
  const running = new Gauge({
    name: "csimux_copies",
    help: "Copies between connections that run or wait in this process.",
    labelNames: [...copyLabels, "state"],
    registers,
  });
  const stalled = new Gauge({
    name: "csimux_copy_stalled",
    help: "1 while a copy is asked for, but no byte of it has arrived for ten minutes; absent without a copy that tells of bytes.",
    labelNames: copyLabels,
    registers,
  });
  const bytes = new Counter({
    name: "csimux_copy_bytes",
    help: "Bytes that have arrived by copies between connections.",
    labelNames: copyLabels,
    registers,
  });
  return ({ copies = [], copied = [] }) => {
    running.reset();
    stalled.reset();
    bytes.reset();
    for (const { from, to, method, state } of copies) running.inc({ from, to, method, state });
    for (const { from, to, method, stalled: isStalled } of copies)
      if (isStalled !== undefined) stalled.inc({ from, to, method }, 0);
    for (const { from, to, method, stalled: isStalled } of copies) if (isStalled) stalled.set({ from, to, method }, 1);
    for (const { bytes: sum, ...labels } of copied) bytes.inc(labels, sum);
  };
}

/** Gauges are reset at each scrape, so that a removed connection leaves no values. */
function gauges(registers: Registry[]): (status: Status) => void {
  const gauge = <T extends string>(name: string, help: string, ...labelNames: readonly T[]) =>
    new Gauge({ name, help, labelNames, registers });
  const info = gauge(
    "csimux_build_info",
    "Always 1; the labels describe the process.",
    "driver",
    "version",
    "commit",
    "modes",
  );
  const started = gauge("csimux_start_timestamp_seconds", "When the process started.");
  const calls = gauge("csimux_calls_in_progress", "Calls in progress.");
  const jobs = gauge("csimux_jobs_running", "Operations that continue whether or not a caller waits for them.");
  const state = gauge(
    "csimux_connection_state",
    "1 for the present state of the connection's file.",
    "connection",
    "state",
  );
  const main = gauge("csimux_main_file_problem", "1 while the main file is invalid or has unknown keys, else 0.");
  const health = gauge(
    "csimux_health_conditions",
    "Number of storage systems or volumes with the condition in the label reason.",
    ...healthLabels,
  );
  const healthUnknown = gauge(
    "csimux_connection_health_unknown",
    "1 until the first successful check of a connection's storage system, and while the last check failed; absent if it cannot be checked.",
    "connection",
  );
  const known = figures.map(([name, help, value]) => ({ gauge: gauge(name, help, "connection"), value }));
  return status => {
    const { name: driver, version, commit, modes } = status;
    info.set({ driver, version, commit, modes: modes.join(",") }, 1);
    started.set(seconds(status.started) ?? 0);
    calls.set(status.calls.length);
    jobs.set(status.jobs.length);
    main.set(Number(status.mainProblem !== undefined));
    state.reset();
    for (const each of status.connections)
      for (const one of states)
        state.set({ connection: each.name, state: one }, Number((each.file?.state ?? "unknown") === one));
    health.reset();
    for (const { labels, count } of tally(status.health)) health.set(labels, count);
    healthUnknown.reset();
    for (const each of status.connections)
      if (each.storage) healthUnknown.set({ connection: each.name }, Number(each.storage.state !== "good"));
    for (const figure of known) {
      figure.gauge.reset();
      for (const each of status.connections) {
        const value = figure.value(each);
        if (value !== undefined) figure.gauge.set({ connection: each.name }, value);
      }
    }
  };
}
