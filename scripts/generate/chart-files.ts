import { readFile } from "node:fs/promises";
import { root } from "../spawned.ts";
import type { Generated } from "./generated.ts";

/** Files outside of the chart that it contains. Copies, because helm prints a line about each link in every command. */
export async function chartFiles(): Promise<Generated> {
  const alerts = await readFile(`${root}/examples/monitoring/alerts.yaml`, "utf8");
  return { files: new Map([["examples/helm/csimux/files/alerts.yaml", alerts]]) };
}
