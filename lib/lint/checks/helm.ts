import { unknownFolder } from "../../config/proxy.ts";
import { type Path, problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { isLocal } from "../facts.ts";
import { at, type HelmValues, type LintInput, listAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";
import { helmValues } from "./helm-values.ts";

/** Rules about values of the Helm chart: the flags of the sidecars that the configuration needs. */
export function* helm(world: LintInput): Iterable<DocumentFinding> {
  for (const values of world.helm) {
    for (const finding of findings(values, world)) yield { leaf: values.leaf, finding };
  }
}

const provisionerArgs: Path = ["controller", "externalProvisioner", "extraArgs"];

const argsOf = ({ value }: HelmValues): readonly string[] => listAt(value, ...provisionerArgs).map(String);

function* findings(values: HelmValues, world: LintInput): Iterable<SchemaFinding> {
  const { value } = values;
  if (textAt(value, "csiDriver", "name") === undefined) {
    yield problem(
      "helm-driver-name",
      ["csiDriver", "name"],
      "the chart needs the name of the driver",
      'add "csiDriver.name: org.example.csimux"',
      "key",
    );
  }
  yield* helmValues(value, world);
  yield* folder(values, world);
  const args = at(value, ...provisionerArgs);
  if (args !== undefined && args !== null && !Array.isArray(args)) {
    yield problem(
      "helm-key",
      provisionerArgs,
      "the chart wants a list here",
      "write each argument behind a dash",
      "key",
    );
    return;
  }
  yield* topologyFlags(values, world);
  yield* localFlags(values, world);
  yield* capacity(values);
}

/** The controller must see the connection files where the main file says they are. */
function* folder({ value }: HelmValues, { main }: LintInput): Iterable<SchemaFinding> {
  if (main?.read.config?.single !== undefined) return;
  const configFolder = textAt(value, "driver", "config", "proxy", "configFolder") ?? main?.read.partial?.configFolder;
  if (configFolder === undefined || configFolder === unknownFolder) return;
  const mounts = listAt(value, "controller", "driver", "extraVolumeMounts");
  const paths = mounts.map(mount => (textAt(mount, "mountPath") ?? "").replace(/\/$/, ""));
  if (paths.some(path => path !== "" && `${configFolder}/`.startsWith(`${path}/`))) return;
  const path = ["controller", "driver", "extraVolumeMounts"];
  yield problem(
    "helm-folder-not-mounted",
    path,
    `nothing is mounted at ${configFolder}, where the connection files are expected`,
    "mount the Secret with the connection files there",
    "key",
  );
}

function* topologyFlags(values: HelmValues, { main, connections }: LintInput): Iterable<SchemaFinding> {
  const config = main?.read.partial;
  const wanted = config?.nodeTopology ?? connections.some(({ read }) => read.config?.topology);
  if (!wanted) return;
  const args = argsOf(values);
  const gate = args.some(arg => /^--feature-gates=(?:.*,)?Topology=true(?:,|$)/.test(arg));
  if (gate || majorOf(values) >= 5) return;
  const message =
    "topology is configured, but this external-provisioner ignores it (its Topology gate is off before version 5)";
  yield problem("helm-topology-gate", provisionerArgs, message, 'add "--feature-gates=Topology=true"', "key");
}

/** Major version of the image of external-provisioner; the chart's own is 3. */
function majorOf({ value }: HelmValues): number {
  const image = at(value, "controller", "externalProvisioner", "image");
  const tag = typeof image === "string" ? image.split(":").at(-1) : textAt(image, "tag");
  return Number(/^v?(\d+)/.exec(tag ?? "v3")?.[1] ?? 3);
}

const localArgs = ["--node-deployment=true", "--strict-topology=true"];

function* localFlags(values: HelmValues, { connections }: LintInput): Iterable<SchemaFinding> {
  const local = connections.find(isLocal);
  if (!local) return;
  if (textAt(values.value, "controller", "strategy") !== "node") {
    yield problem(
      "helm-local-driver",
      ["controller", "strategy"],
      `${local.driver} needs a controller on every node`,
      'write "controller.strategy: node"',
    );
  }
  const args = argsOf(values);
  for (const arg of localArgs.filter(each => !args.includes(each))) {
    yield problem(
      "helm-local-driver",
      provisionerArgs,
      `${local.driver} needs the argument ${arg} of external-provisioner`,
      `add "${arg}"`,
      "key",
    );
  }
}

function* capacity(values: HelmValues): Iterable<SchemaFinding> {
  const tracking = argsOf(values).includes("--enable-capacity=true");
  if (tracking !== (at(values.value, "csiDriver", "storageCapacity") === true)) {
    yield warning(
      "helm-capacity",
      ["csiDriver", "storageCapacity"],
      '"storageCapacity: true" and "--enable-capacity=true" only work together',
      "set both or none",
      "key",
    );
  }
}
