import { parseAllDocuments, stringify } from "yaml";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { at, listAt, mappingAt, textAt } from "../lint/lint-input.ts";
import { yamlText } from "../yaml/print.ts";
import type { Manifest } from "./classes.ts";
import type { TakenOverConnection } from "./connections.ts";
import { isOff } from "./old.ts";
import { unprivileged } from "./privileges.ts";

/** The texts of the manifests in examples/kubernetes. */
export interface ManifestTexts {
  readonly namespace: string;
  readonly csiDriver: string;
  readonly controller: string;
  /** A patch of it: what a controller without rights on its node needs and has. */
  readonly unprivileged: string;
  /** The container of csi-attacher, as a patch of the controller. */
  readonly attacher: string;
  readonly attacherRights: string;
  readonly controllerRights: string;
  readonly networkPolicy: string;
  readonly node: string;
  readonly nodeRights: string;
}

/** The names of the new deployment. */
export interface DeploymentNames {
  /** The driver's name. */
  readonly driver: string;
  readonly namespace: string;
  /** The image with its tag; undefined: the one in the examples. */
  readonly image: string | undefined;
}

const exampleDriver = "csimux.storage";
const exampleImage = "registry.example.org/csimux";
const exampleKubelet = "/var/lib/kubelet";

function objectsOf(text: string, { driver, namespace, image }: DeploymentNames): Manifest[] {
  const named = text.replaceAll(exampleDriver, driver).replaceAll(exampleImage, image ?? exampleImage);
  return parseAllDocuments(named)
    .map(document => document.toJS() as unknown)
    .filter(isMapping)
    .map(object => inNamespace(object, namespace));
}

const unspaced: ReadonlySet<unknown> = new Set(["ClusterRole", "ClusterRoleBinding", "CSIDriver", "Namespace"]);

/** Adds the namespace to objects of namespaced kinds and to the subjects of bindings. */
function inNamespace(object: Mapping, namespace: string): Manifest {
  const { kind } = object;
  const metadata = mappingAt(object, "metadata");
  const subjects = listAt(object, "subjects").map(each => ({ ...(each as Mapping), namespace }));
  return {
    ...object,
    metadata: unspaced.has(kind) ? metadata : { ...metadata, namespace },
    ...(subjects.length > 0 && { subjects }),
  };
}

/** Several manifests as one text. */
export const manifestText = (objects: readonly Manifest[]): string =>
  objects.map(object => yamlText(object)).join("---\n");

/** The Namespace with the requested name. */
export function namespaceObject({ namespace: text }: ManifestTexts, names: DeploymentNames): Manifest[] {
  return objectsOf(text, names).map(object => ({
    ...object,
    metadata: { ...mappingAt(object, "metadata"), name: names.namespace },
  }));
}

/** The CSIDriver of the new name, and the CSIDrivers of the old names as created by the chart (templates/driver.yaml). */
export const csiDrivers = (
  { csiDriver }: ManifestTexts,
  names: DeploymentNames,
  converted: readonly TakenOverConnection[],
): Manifest[] => [
  ...objectsOf(csiDriver, names),
  ...converted.filter(({ old }) => !isOff(old.values, "csiDriver", "enabled")).map(oldDriver),
];

const driverKeys = [
  "fsGroupPolicy",
  "volumeLifecycleModes",
  "tokenRequests",
  "requiresRepublish",
  "storageCapacity",
  "seLinuxMount",
  "nodeAllocatableUpdatePeriodSeconds",
] as const;

function oldDriver({ old: { name, values }, attaches }: TakenOverConnection): Manifest {
  const given = mappingAt(values, "csiDriver");
  const kept = driverKeys.filter(key => given[key] !== undefined && given[key] !== null && given[key] !== "");
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSIDriver",
    metadata: { name },
    spec: {
      attachRequired: attaches,
      podInfoOnMount: given["podInfoOnMount"] ?? true,
      ...Object.fromEntries(kept.map(key => [key, given[key]])),
    },
  };
}

type Container = Mapping & { readonly name: string; readonly args: readonly string[] };

const containersOf = (object: Manifest): readonly Container[] =>
  listAt(object, "spec", "template", "spec", "containers") as readonly Container[];

function withContainers(object: Manifest, containers: readonly Mapping[], more: Mapping = {}): Manifest {
  const spec = mappingAt(object, "spec");
  const template = mappingAt(spec, "template");
  return {
    ...object,
    spec: { ...spec, template: { ...template, spec: { ...mappingAt(template, "spec"), ...more, containers } } },
  };
}

const aliasArgs = (converted: readonly TakenOverConnection[]): readonly string[] =>
  converted.map(({ old, connection }) => `--alias=${old.name}=${connection}`);

/** The NetworkPolicy of the controller. */
export const networkPolicy = ({ networkPolicy: text }: ManifestTexts, names: DeploymentNames): Manifest[] =>
  objectsOf(text, names);

/** The Deployment of the examples, privileged or not, with sidecars for each old name: a sidecar serves one name. */
export function controller(
  { controller: text, unprivileged: patch, attacher }: ManifestTexts,
  names: DeploymentNames,
  converted: readonly TakenOverConnection[],
  isPrivileged: boolean,
): Manifest[] {
  const [limits = {}] = objectsOf(patch, names);
  const attachers = objectsOf(attacher, names).flatMap(containersOf);
  return objectsOf(text, names).map(object => {
    if (object["kind"] !== "Deployment") return object;
    const containers = [...containersOf(object), ...attachers].map(each =>
      each.name === "csimux" ? { ...each, args: [...each.args, ...aliasArgs(converted)] } : each,
    );
    const all = withContainers(object, [...containers, ...converted.flatMap(each => sidecarsFor(each, containers))]);
    return isPrivileged ? all : unprivileged(all, limits);
  });
}

/** The sidecars of an old name: its chart's, and the attacher if its volumes are attached. */
function sidecarsFor({ old, connection, attaches }: TakenOverConnection, containers: readonly Container[]) {
  const { values } = old;
  if (isOff(values, "controller", "enabled")) return [];
  const on = (key: string) => !isOff(values, "controller", key, "enabled");
  const capacity = at(values, "csiDriver", "storageCapacity") === true;
  const like = (name: string, args: (args: readonly string[]) => readonly string[] = all => all) =>
    containers
      .filter(each => each.name === name)
      .map(each => ({
        ...each,
        name: sidecarName(name, connection),
        args: args(each.args.map(arg => aliased(arg, old.name))),
      }));
  return [
    ...(attaches ? like("attacher") : []),
    ...(on("externalProvisioner")
      ? like("provisioner", args =>
          capacity ? args : args.filter(arg => !/^--(?:enable-capacity|capacity-)/.test(arg)),
        )
      : []),
    ...(on("externalResizer") ? like("resizer") : []),
    ...(on("externalSnapshotter") ? like("snapshotter") : []),
  ];
}

/** A valid DNS label: at most 63 characters, without the dots that a connection name may have. */
const sidecarName = (sidecar: string, connection: string): string =>
  `${sidecar}-${connection.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`.slice(0, 63).replace(/-$/, "");

/** Replaces the socket by the alias's, which is next to the main one and has the alias's name. */
const aliased = (arg: string, name: string): string =>
  arg.replace(/^(--csi-address=.*\/)[^/]*$/, (_, folder: string) => `${folder}${name}.sock`);

/** The DaemonSet of the examples, in which csimux registers all names with kubelet itself. */
export const node = (
  { node: text }: ManifestTexts,
  names: DeploymentNames,
  converted: readonly TakenOverConnection[],
  kubelet: string,
): Manifest[] =>
  objectsOf(text.replaceAll(exampleKubelet, kubelet), names).map(object => {
    if (object["kind"] !== "DaemonSet") return object;
    const containers = containersOf(object).map(each =>
      each.name === "csimux" ? { ...each, args: [...each.args, ...aliasArgs(converted)] } : each,
    );
    return withContainers(object, containers, { automountServiceAccountToken: true });
  });

/** Rights of controller, attachers and nodes, and read access to the Secrets of the classes. */
export const rights = (
  { controllerRights, attacherRights, nodeRights }: ManifestTexts,
  names: DeploymentNames,
  secrets: readonly Manifest[],
): Manifest[] => [
  ...[controllerRights, attacherRights, nodeRights].flatMap(text => objectsOf(text, names)),
  ...secretRights(names, secrets),
];

const controllerName = "csimux-controller";

/** A Role per namespace with Secrets of classes, which allows to read only these. */
function secretRights({ namespace }: DeploymentNames, secrets: readonly Manifest[]): readonly Manifest[] {
  const spaces = [...new Set(secrets.map(each => textAt(each, "metadata", "namespace") ?? ""))];
  const rbac = "rbac.authorization.k8s.io";
  return spaces.flatMap(space => {
    const metadata = { name: `${controllerName}-secrets`, namespace: space };
    const resourceNames = secrets
      .filter(each => textAt(each, "metadata", "namespace") === space)
      .map(each => textAt(each, "metadata", "name"));
    return [
      {
        apiVersion: `${rbac}/v1`,
        kind: "Role",
        metadata,
        rules: [{ apiGroups: [""], resources: ["secrets"], resourceNames, verbs: ["get"] }],
      },
      {
        apiVersion: `${rbac}/v1`,
        kind: "RoleBinding",
        metadata,
        roleRef: { apiGroup: rbac, kind: "Role", name: metadata.name },
        subjects: [{ kind: "ServiceAccount", name: controllerName, namespace }],
      },
    ];
  });
}

/** The Secret of the connection files, and the Secrets of the classes. */
export const secretText = (
  names: DeploymentNames,
  converted: readonly TakenOverConnection[],
  ofClasses: readonly Manifest[],
): string =>
  manifestText([
    {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "csimux-connections", namespace: names.namespace },
      type: "Opaque",
      stringData: Object.fromEntries(converted.map(({ connection, text }) => [`${connection}.yaml`, text])),
    },
    ...ofClasses,
  ]);

/**
 * The kustomization for `kubectl apply -k`. A changed main file changes the name of the ConfigMap, and so restarts the
 * pods.
 */
export const kustomization = ({ namespace }: DeploymentNames, resources: readonly string[]): string =>
  stringify({
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources,
    configMapGenerator: [{ name: "csimux-config", namespace, files: ["proxy.yaml"] }],
  });
