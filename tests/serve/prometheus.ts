import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { parse } from "yaml";
import { filled, panels } from "../dashboard.ts";
import { freePort } from "../io/ssh/sshd.ts";

/** Whether Debian's package prometheus is installed. */
export const hasPrometheus = (process.env["PATH"] ?? "")
  .split(delimiter)
  .some(path => existsSync(join(path, "prometheus")));

/** A Prometheus that scrapes one address every two seconds, with the alert rules of examples/monitoring and no waiting before they fire. */
export class Prometheus {
  readonly #port: number;
  readonly #child: ChildProcess;

  private constructor(port: number, child: ChildProcess) {
    this.#port = port;
    this.#child = child;
  }

  /** `folder` gets its configuration and its data. */
  static async start(folder: string, scraped: string): Promise<Prometheus> {
    const alerts = parse(readFileSync(new URL("../../examples/monitoring/alerts.yaml", import.meta.url), "utf8"));
    for (const group of alerts.groups) for (const rule of group.rules) rule.for = "0s";
    const rules = join(folder, "rules.json");
    await writeFile(rules, JSON.stringify(alerts));
    const every = { scrape_interval: "2s", scrape_timeout: "2s", evaluation_interval: "1s" };
    const scrape_configs = [{ job_name: "csimux", static_configs: [{ targets: [scraped] }] }];
    const config = join(folder, "prometheus.yml");
    await writeFile(config, JSON.stringify({ global: every, rule_files: [rules], scrape_configs }));
    const data = join(folder, "data");
    await mkdir(data);
    const port = await freePort();
    const flags = [`--config.file=${config}`, `--storage.tsdb.path=${data}`, "--log.level=error"];
    const listen = `--web.listen-address=127.0.0.1:${port}`;
    return new Prometheus(port, spawn("prometheus", [...flags, listen], { stdio: "ignore" }));
  }

  /** The connections for which each alert fires, "" where it names none; undefined until Prometheus answers. */
  async firing(): Promise<Readonly<Record<string, readonly string[]>> | undefined> {
    const found = await this.#ask<{ alerts: { labels: Record<string, string>; state: string }[] }>("alerts");
    if (!found) return undefined;
    const by: Record<string, string[]> = {};
    for (const { labels, state } of found.alerts) {
      const { alertname = "", connection = "" } = labels;
      if (state === "firing") by[alertname] = [...(by[alertname] ?? []), connection].sort();
    }
    return by;
  }

  /** The values that a panel of the dashboard shows. */
  async valuesOf(title: string): Promise<readonly number[]> {
    const expr = filled(panels.find(panel => panel.title === title)?.targets?.[0]?.expr ?? "");
    const found = await this.#ask<{ result: { value: [number, string] }[] }>(`query?query=${encodeURIComponent(expr)}`);
    return (found?.result ?? []).map(({ value }) => Number(value[1]));
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  async #ask<T>(path: string): Promise<T | undefined> {
    try {
      const answer = await fetch(`http://127.0.0.1:${this.#port}/api/v1/${path}`);
      return answer.ok ? ((await answer.json()) as { data: T }).data : undefined;
    } catch {
      return undefined;
    }
  }
}
