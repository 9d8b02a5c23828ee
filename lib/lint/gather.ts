import { posix } from "node:path";
import { noDefaults } from "../config/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { DocumentDiagnostic, SourceDocument } from "./document.ts";
import { addInput, type Input } from "./input.ts";
import { type ConnectionFile, type LintInput, textAt } from "./lint-input.ts";
import type { FoundObjects } from "./objects.ts";
import { readConnectionFile, readMainDocument, type UnreadDocument } from "./read.ts";
import { report } from "./rule.ts";
import { readingRules } from "./rules/reading.ts";

/** The facts needed to read configuration files. */
export interface ReadSettings {
  readonly modules: readonly DriverModule[];
  readonly resolver: ValueResolver;
}

/** One deployment: its files, and the problems found while reading them. */
export interface Gathered {
  readonly input: LintInput;
  /** All documents that concern csimux. */
  readonly documents: readonly SourceDocument[];
  readonly diagnostics: readonly DocumentDiagnostic[];
}

/** Reads all inputs. Pure; never throws. */
export function gather(inputs: readonly Input[], settings: ReadSettings): readonly Gathered[] {
  const found: FoundObjects = {
    candidates: [],
    classes: [],
    helm: [],
    volumes: [],
    drivers: [],
    workloads: [],
    sealed: [],
    encrypted: [],
    stores: [],
    kustomizations: [],
    releases: [],
    diagnostics: [],
    documents: 0,
  };
  for (const input of inputs) addInput(input, found);
  return byDeployment(found).map(each => readAll(each, settings));
}

/**
 * Separates deployments, each with its own main file, unless the user named one: by the label app.kubernetes.io/instance of the objects
 * that contain the main files, or else by their folders. Other objects belong to the first deployment; other files are checked separately.
 */
function byDeployment(found: FoundObjects): readonly FoundObjects[] {
  const mains = found.candidates.filter(({ role }) => role === "main");
  if (mains.some(({ named }) => named)) return [found];
  const instances = [...new Set(mains.flatMap(({ document }) => document.instance ?? []))];
  const folders = [
    ...new Set(
      mains
        .filter(({ document }) => !mains.some(other => isConnectionOf(other.document, document)))
        .map(({ document }) => folderOf(document.file)),
    ),
  ].sort((a, b) => b.length - a.length);
  const [isByInstance, isByFolder] = [instances.length > 1, folders.length > 1];
  if (!isByInstance && !isByFolder) return [found];
  const keyOf = ({ file, instance }: SourceDocument): string | undefined =>
    isByInstance
      ? (instances.find(each => each === instance) ?? instances[0])
      : folders.find(folder => file.startsWith(folder));
  return [...(isByInstance ? instances : folders), undefined].map(key => {
    const own = <T extends { readonly document: SourceDocument }>(all: readonly T[]): T[] =>
      all.filter(({ document }) => keyOf(document) === key);
    return {
      ...found,
      candidates: own(found.candidates),
      classes: own(found.classes),
      helm: own(found.helm),
      volumes: own(found.volumes),
      drivers: own(found.drivers),
      workloads: own(found.workloads),
      stores: own(found.stores),
      kustomizations: own(found.kustomizations),
      releases: own(found.releases),
      diagnostics: own(found.diagnostics),
    };
  });
}

const folderOf = (file: string): string => file.slice(0, file.lastIndexOf("/") + 1);

/** Whether a file is in the connection folder of a main file: relative to it, or, for a path in a container, by the last part. */
function isConnectionOf(main: SourceDocument, { file }: SourceDocument): boolean {
  const folder = textAt(main.source.value, "proxy", "configFolder");
  if (folder === undefined || file === main.file) return false;
  const here = posix.join(folderOf(file), ".");
  const home = folderOf(main.file);
  if (!folder.startsWith("/")) return here === posix.join(home, folder, ".");
  return here === folder || (posix.basename(here) === posix.basename(folder) && file.startsWith(home));
}

function readAll({ candidates, diagnostics: found, ...objects }: FoundObjects, settings: ReadSettings): Gathered {
  const { modules, resolver } = settings;
  const mains = mainCandidates(candidates).map(({ document }) => readMainDocument(document, modules, resolver));
  const [main, ...more] = mains;
  const defaults = main?.read.partial?.defaults ?? noDefaults;
  const single = main?.read.config?.single;
  const itself: readonly UnreadDocument[] =
    main && single !== undefined ? [{ document: main.document, name: single, role: "connection" }] : [];
  const connections = [...itself, ...candidates.filter(({ role }) => role === "connection")].map(candidate =>
    readConnectionFile(candidate, defaults, modules, resolver),
  );
  // The same text in a Secret or ConfigMap is made from the main file.
  const others = more.filter(
    ({ document }) => document.text !== main?.document.text || document.inside === main.document.inside,
  );
  const message = `the main file is ${main?.document.file ?? ""}; another file next to it cannot have "driver: proxy"`;
  const fix =
    "if this is a connection, name its driver; otherwise check one deployment at a time, or label the objects of each with app.kubernetes.io/instance";
  const diagnostics = [
    ...found,
    ...others.map(({ document }) =>
      report(document, readingRules["several-main-files"], ["driver"], message, fix, "key"),
    ),
    ...[...(main ? [main] : []), ...connections].flatMap(({ document, read }) =>
      read.diagnostics.map(diagnostic => ({ document, diagnostic })),
    ),
  ];
  const documents = [
    ...[...mains, ...connections, ...objects.classes, ...objects.helm, ...objects.volumes, ...diagnostics].map(
      ({ document }) => document,
    ),
  ];
  const input = { ...objects, main, connections: distinct(connections), modules, resolver };
  return { input, documents: [...new Set(documents)], diagnostics };
}

/** The main file first: the one that the user named, or one that names a connection folder. */
function mainCandidates(candidates: readonly UnreadDocument[]): readonly UnreadDocument[] {
  const all = candidates.filter(({ role }) => role === "main");
  const main =
    all.find(({ named }) => named) ??
    all.find(({ document }) => textAt(document.source.value, "proxy", "configFolder")) ??
    all[0];
  return main ? [main, ...all.filter(each => each !== main)] : [];
}

/** A file and the same text in the Secret made from it are one connection; nas.yaml and nas.yml in one folder are two, which csimux refuses. */
function distinct(connections: readonly ConnectionFile[]): readonly ConnectionFile[] {
  const seen = new Map<string, SourceDocument>();
  return connections.filter(({ name, document }) => {
    const key = `${name}\n${document.text}`;
    const twin = seen.get(key);
    seen.set(key, twin ?? document);
    const isBeside = twin && twin.file !== document.file && folderOf(twin.file) === folderOf(document.file);
    return !twin || (isBeside && twin.inside === "" && document.inside === "");
  });
}
