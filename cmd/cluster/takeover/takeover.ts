import { join } from "node:path";
import { modules } from "../../../lib/drivers/index.ts";
import type { LintSettings } from "../../../lib/lint/lint.ts";
import { needsRelease, oldClasses } from "../../../lib/takeover/classes.ts";
import { classWords, connectionsOf, type TakenOverConnection, unfit } from "../../../lib/takeover/connections.ts";
import { leftOver } from "../../../lib/takeover/left.ts";
import * as make from "../../../lib/takeover/manifests.ts";
import { kubeletOf, type OldDeployment, type Refusal, readOld, readSecrets } from "../../../lib/takeover/old.ts";
import { privilegedBy } from "../../../lib/takeover/privileges.ts";
import { type MovedVolumes, movedVolumes, movingSteps, readVolumes } from "../../../lib/takeover/volumes.ts";
import { fileBudget } from "../../../lib/yaml/budget.ts";
import { type Host, valueResolver } from "../../host.ts";
import { textOf, UsageError, visible } from "../../terminal/terminal.ts";
import { validate } from "../../validate/validate.ts";
import { examples } from "./examples.ts";
import { notes, type OutputFile, writeNew } from "./notes.ts";
import type { TakeoverOptions } from "./options.ts";

/**
 * Writes and checks the files of one csimux for these deployments. The exit code is 0, or 1 if not everything could be
 * taken over or the image is unknown.
 */
export async function takeOver(options: TakeoverOptions, host: Host): Promise<number> {
  const { olds, refused } = await readAll(options, host);
  for (const { file, why } of refused) host.err(`csimux: ${visible(`${file}: not taken over: ${why}`)}\n`);
  if (olds.length === 0) throw new UsageError("nothing can be taken over");
  refuseDoubles(olds);
  const settings: LintSettings = {
    modules,
    resolver: valueResolver(host.env),
    checkEnvironment: false,
  };
  const { main, converted } = connectionsOf(olds, settings);
  const volumes = await volumesOf(options, converted, host);
  const { files, words } = await planned(options, main, converted, volumes, settings);
  const report = notes(options, converted, refused, words, volumes);
  await writeNew(options.out, [...files, { path: "NOTES.md", text: report }]);
  host.out(`${report.split("\n").map(visible).join("\n")}\n`);
  const code = await validate({ inputs: [options.out], name: "", format: "text", strict: true }, host);
  if (options.image === undefined)
    host.err(
      "csimux: the image is a placeholder: set csimux's image in controller.yaml and node.yaml, or give --image\n",
    );
  return code === 0 && options.image !== undefined && refused.length === 0 && (volumes?.refused ?? []).length === 0
    ? 0
    : 1;
}

async function readAll({ values, secrets: files }: TakeoverOptions, host: Host) {
  const manifests = await Promise.all(files.map(async file => ({ file, text: await textOf(file, host) })));
  const secrets = readSecrets(manifests);
  const local = new Set(modules.filter(({ facts }) => facts.local).flatMap(({ names }) => names));
  const olds: OldDeployment[] = [];
  const refused: Refusal[] = [];
  for (const { file, release } of values) {
    const text = file === "-" ? await host.stdin(fileBudget.bytes + 1) : await textOf(file, host);
    const read = readOld(file, text, release, secrets);
    const why = "why" in read ? read.why : (unfit(read, driver => local.has(driver)) ?? lacking(read));
    if ("why" in read || why !== undefined) refused.push({ file, why: why ?? "" });
    else olds.push(read);
  }
  return { olds, refused };
}

/** PersistentVolumes reference Secrets that the chart created and Helm removes with the release. */
const lacking = (old: OldDeployment): string | undefined =>
  old.release === undefined && needsRelease(old)
    ? "its classes have Secrets, whose names contain the release's: add --release <namespace>/<name> (helm list -A)"
    : undefined;

function refuseDoubles(olds: readonly OldDeployment[]): void {
  const twice = olds.find(({ name }, index) => olds.findIndex(each => each.name === name) !== index);
  if (twice) throw new UsageError(`two of the values have the driver name "${twice.name}"`);
}

async function volumesOf(
  { volumes: file, name }: TakeoverOptions,
  converted: readonly TakenOverConnection[],
  host: Host,
) {
  if (file === undefined) return undefined;
  const volumes = readVolumes(file, await textOf(file, host));
  if (!volumes) throw new UsageError(`${file} contains no PersistentVolumes; write it with kubectl get pv -o json`);
  return movedVolumes(volumes, new Map(converted.map(({ old, connection }) => [old.name, connection])), name);
}

/** All files except the notes, and the notes about classes and values. */
async function planned(
  { name: driver, namespace, image }: TakeoverOptions,
  main: string,
  converted: readonly TakenOverConnection[],
  volumes: MovedVolumes | undefined,
  settings: LintSettings,
) {
  const names = { driver, namespace, image };
  const made = converted.map(each => ({ ...each, ...oldClasses(each.old) }));
  const classes = made.flatMap(each => each.classes);
  const secrets = made.flatMap(each => each.secrets);
  const kubelets = new Set(converted.map(({ old }) => kubeletOf(old.values)));
  if (kubelets.size > 1) throw new UsageError(`the values have different kubelet folders: ${[...kubelets].join(", ")}`);
  const [kubelet = ""] = kubelets;
  const manifests: readonly (readonly [string, readonly Readonly<Record<string, unknown>>[]])[] = [
    ["namespace.yaml", make.namespaceObject(examples, names)],
    ["csidrivers.yaml", make.csiDrivers(examples, names, converted)],
    ["classes.yaml", classes],
    ["rights.yaml", make.rights(examples, names, secrets)],
    ["controller.yaml", make.controller(examples, names, converted, privilegedBy(converted, { modules }).length > 0)],
    ["network-policy.yaml", make.networkPolicy(examples, names)],
    ["node.yaml", make.node(examples, names, converted, kubelet)],
  ];
  const written = manifests.filter(([, objects]) => objects.length > 0);
  const secretFile = "connections-secret.yaml";
  const files: OutputFile[] = [
    { path: "proxy.yaml", text: main },
    { path: secretFile, text: make.secretText(names, converted, secrets), secret: true },
    ...written.map(([path, objects]) => ({ path, text: make.manifestText(objects) })),
    { path: "kustomization.yaml", text: make.kustomization(names, [...written.map(([path]) => path), secretFile]) },
    ...(volumes?.moved ?? []).map(each => ({
      path: join("persistent-volumes", `${each.name}.yaml`),
      text:
        movingSteps(each)
          .map(line => `# ${visible(line)}\n`)
          .join("") + make.manifestText([each.manifest]),
    })),
  ];
  const named = made.flatMap(each => each.classes.map(manifest => ({ connection: each.connection, manifest })));
  const words = new Map(converted.map(({ old }) => [old.name, [...leftOver(old.values)]]));
  for (const { connection, line } of classWords(main, converted, named, settings))
    words.get(converted.find(each => each.connection === connection)?.old.name ?? "")?.push(line);
  return { files, words };
}
