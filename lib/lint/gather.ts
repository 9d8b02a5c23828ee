import { noDefaults } from "../config/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import { failure } from "../schema/finding.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { PatternCompiler } from "../topology/pattern.ts";
import { addInput, type Input } from "./input.ts";
import { type ConnectionFile, type LintInput, textAt } from "./lint-input.ts";
import type { FoundObjects } from "./objects.ts";
import { connectionFile, mainFile, type UnreadDocument } from "./read.ts";
import type { DocumentDiagnostic, DocumentFinding, SourceDocument } from "./source-document.ts";

/** What was given, read and sorted; plus findings about what could not be sorted. */
export interface SortedInputs {
  readonly world: LintInput;
  readonly leaves: readonly SourceDocument[];
  readonly reported: readonly DocumentFinding[];
  readonly placed: readonly DocumentDiagnostic[];
}

/** Reads all inputs. Pure; never throws. */
export function gather(
  inputs: readonly Input[],
  modules: readonly DriverModule[],
  outside: ValueResolver,
  compile: PatternCompiler,
): SortedInputs {
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
    reported: [],
    placed: [],
    documents: 0,
  };
  for (const input of inputs) addInput(input, found);
  const mains = mainCandidates(found.candidates).map(({ leaf }) => mainFile(leaf, modules, outside));
  const main = mains[0];
  const defaults = main?.read.partial?.defaults ?? noDefaults;
  const single = main?.read.config?.single;
  const itself: readonly UnreadDocument[] =
    main && single !== undefined ? [{ leaf: main.leaf, name: single, role: "connection" }] : [];
  const connections = [...itself, ...found.candidates.filter(({ role }) => role === "connection")].map(candidate =>
    connectionFile(candidate, defaults, modules, outside),
  );
  for (const { leaf } of mains.slice(1)) {
    // The Secret that is made from the main file.
    if (leaf.text === main?.leaf.text && leaf.inside !== main.leaf.inside) continue;
    const message = `the main file is ${main?.leaf.file ?? ""}, and nothing beside it can say "driver: proxy" too`;
    const fix = "name the driver of the storage if this is a connection; else check one deployment at a time";
    found.reported.push({ leaf, finding: failure("several-main-files", ["driver"], message, fix, "key") });
  }
  const placed = [
    ...found.placed,
    ...[...mains.slice(0, 1), ...connections].flatMap(({ leaf, read }) =>
      read.diagnostics.map(diagnostic => ({ leaf, diagnostic })),
    ),
  ];
  const leaves = [...mains, ...connections, ...found.classes, ...found.helm, ...found.volumes].map(({ leaf }) => leaf);
  const world = {
    main,
    connections: distinct(connections),
    classes: found.classes,
    helm: found.helm,
    volumes: found.volumes,
    drivers: found.drivers,
    workloads: found.workloads,
    sealed: found.sealed,
    encrypted: found.encrypted,
    stores: found.stores,
    kustomizations: found.kustomizations,
    modules,
    compile,
  };
  const others = [...found.reported, ...placed].map(({ leaf }) => leaf);
  return { world, leaves: [...new Set([...leaves, ...others])], reported: found.reported, placed };
}

/** The main file first: the one that was named as such, or one that says where its connections are, whatever the order. */
function mainCandidates(candidates: readonly UnreadDocument[]): readonly UnreadDocument[] {
  const all = candidates.filter(({ role }) => role === "main");
  const main =
    all.find(({ named }) => named) ??
    all.find(({ leaf }) => textAt(leaf.source.value, "proxy", "configFolder")) ??
    all[0];
  return main ? [main, ...all.filter(each => each !== main)] : [];
}

/** The same text under the same name, as a file and in the Secret made from it, is one connection. */
function distinct(connections: readonly ConnectionFile[]): readonly ConnectionFile[] {
  const seen = new Set<string>();
  return connections.filter(({ name, leaf }) => {
    const key = `${name}\n${leaf.text}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}
