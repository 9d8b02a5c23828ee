import { noDefaults } from "../config/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import { failure } from "../schema/finding.ts";
import type { Outside } from "../schema/outside.ts";
import type { PatternCompiler } from "../topology/pattern.ts";
import { addInput, type Input } from "./input.ts";
import type { Leaf, Placed, Reported } from "./leaf.ts";
import type { Gathered } from "./objects.ts";
import { connectionFile, mainFile } from "./read.ts";
import type { ConnectionFile, World } from "./world.ts";

/** What was given, read and sorted; plus findings about what could not be sorted. */
export interface Sorted {
  readonly world: World;
  readonly leaves: readonly Leaf[];
  readonly reported: readonly Reported[];
  readonly placed: readonly Placed[];
}

/** Reads all inputs. Pure; never throws. */
export function gather(
  inputs: readonly Input[],
  modules: readonly DriverModule[],
  outside: Outside,
  compile: PatternCompiler,
): Sorted {
  const found: Gathered = { candidates: [], classes: [], helm: [], reported: [], placed: [], documents: 0 };
  for (const input of inputs) addInput(input, found);
  const mains = found.candidates
    .filter(({ role }) => role === "main")
    .map(({ leaf }) => mainFile(leaf, modules, outside));
  const main = mains[0];
  const defaults = main?.read.partial?.defaults ?? noDefaults;
  const connections = found.candidates
    .filter(({ role }) => role === "connection")
    .map(candidate => connectionFile(candidate, defaults, modules, outside));
  for (const other of mains.slice(1)) {
    const message = `another main file was read before: ${main?.leaf.file ?? ""}`;
    found.reported.push({
      leaf: other.leaf,
      finding: failure("several-main-files", ["driver"], message, "check one deployment at a time", "key"),
    });
  }
  const placed = [
    ...found.placed,
    ...[...mains, ...connections].flatMap(({ leaf, read }) =>
      read.diagnostics.map(diagnostic => ({ leaf, diagnostic })),
    ),
  ];
  const leaves = [...mains, ...connections, ...found.classes, ...found.helm].map(({ leaf }) => leaf);
  const world = {
    main,
    connections: distinct(connections),
    classes: found.classes,
    helm: found.helm,
    modules,
    compile,
  };
  const others = [...found.reported, ...placed].map(({ leaf }) => leaf);
  return { world, leaves: [...new Set([...leaves, ...others])], reported: found.reported, placed };
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
