import { readFileSync } from "node:fs";

/** A panel of the dashboard in examples/monitoring, with the fields that tests read. */
export interface Panel {
  readonly title: string;
  readonly type: string;
  readonly targets?: readonly { readonly expr: string }[];
  readonly fieldConfig: {
    readonly defaults: {
      readonly thresholds?: { readonly steps: readonly { readonly color: string; readonly value: number | null }[] };
    };
  };
}

const dashboard = JSON.parse(
  readFileSync(new URL("../examples/monitoring/dashboard.json", import.meta.url), "utf8"),
) as { readonly panels: readonly Panel[] };

/** The panels of the dashboard. */
export const { panels } = dashboard;

/** A query as Grafana fills its variables in when "All" is chosen. */
export const filled = (expr: string): string =>
  expr.replaceAll("$__rate_interval", "5m").replaceAll("$instance", ".*").replaceAll("$connection", ".*");

/** The colour that a panel shows for a value, by its thresholds. */
export function colour(title: string, value: number): string | undefined {
  const { steps = [] } = panels.find(panel => panel.title === title)?.fieldConfig.defaults.thresholds ?? {};
  return steps.findLast(step => (step.value ?? Number.NEGATIVE_INFINITY) <= value)?.color;
}

/** The panel with the worst state of each connection. */
export const timeline = "State of each connection, worst first";
