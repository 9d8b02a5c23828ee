import { isMapping, type Mapping } from "../core/mapping.ts";
import type { Path } from "../schema/finding.ts";
import { parseYaml } from "../yaml/parse.ts";
import { partOf, type SourceDocument } from "./document.ts";
import { type ClassObject, listAt, type ManifestObject, mappingAt, textAt } from "./lint-input.ts";
import type { UnreadDocument } from "./read.ts";
import { outermost, plainFile } from "./secret-files.ts";

/** What csimux's chart makes of its values, as if the user had written it. */
export interface ChartParts {
  /** The main file and the connections. */
  readonly candidates: readonly UnreadDocument[];
  readonly classes: readonly ClassObject[];
  /** The CSIDriver. */
  readonly driver: ManifestObject;
  /** The name of the image, as in a kustomization. */
  readonly image: ManifestObject;
}

/** Converts the values at `path` of a document as the templates of examples/helm/csimux do. */
export function chartParts(document: SourceDocument, path: Path): ChartParts {
  const value = mappingAt(document.source.value, ...path.map(String));
  const isLocal = value["mode"] === "node-local";
  const main = mainOf(document, value, path, isLocal);
  const attachRequired = !isLocal && value["attachRequired"] !== false;
  const made = (whole: Mapping, outer: (path: Path) => Path): ManifestObject => ({
    document: partOf(document, whole, inner => [...path, ...outer(inner)]),
    path: [],
    value: whole,
  });
  return {
    candidates: [...(main ? [main] : []), ...connectionsOf(document, value, path)],
    classes: [
      ...classesOf(document, value, path, "storage", isLocal ? {} : { allowVolumeExpansion: true }),
      ...classesOf(document, value, path, "snapshot", {}),
    ],
    driver: made({ metadata: { name: driverName(value) }, spec: { attachRequired } }, ([first, ...rest]) =>
      first === "metadata" ? ["driverName"] : rest,
    ),
    image: made({ images: [{ newName: textAt(value, "image", "repository") }] }, () => ["image", "repository"]),
  };
}

const driverName = (value: Mapping): string =>
  textAt(value, "driverName") || (value["mode"] === "node-local" ? "csimux.storage-local" : "csimux.storage");

/** The main file; undefined if the values say nothing about it. */
function mainOf(document: SourceDocument, value: Mapping, path: Path, isLocal: boolean): UnreadDocument | undefined {
  const [main, groups] = [value["main"], mappingAt(value, "groups")];
  if (typeof main === "string" && main !== "") return fileAt(document, main, [...path, "main"], "main");
  if (Object.keys(groups).length === 0 && !isLocal) return undefined;
  const proxy = {
    configFolder: "/connections",
    ...(isLocal ? { nodeTopology: { type: "node" } } : {}),
    ...(Object.keys(groups).length > 0 ? { groups } : {}),
  };
  const part = partOf(document, { driver: "proxy", proxy }, inner => [...path, ...inner.slice(1)]);
  return { document: part, name: "proxy", role: "main" };
}

const connectionsOf = (document: SourceDocument, value: Mapping, path: Path): readonly UnreadDocument[] =>
  Object.entries(mappingAt(value, "connections")).flatMap(([name, file]) =>
    typeof file === "string" ? [fileAt(document, file, [...path, "connections", name], "connection")] : [],
  );

/** The file in the text at `path`. */
function fileAt(document: SourceDocument, text: string, path: Path, role: UnreadDocument["role"]): UnreadDocument {
  const name = String(path.at(-1));
  const { start, outward } = outermost(document, plainFile(document.source, document.text, name, text, path));
  const source = parseYaml(document.file, text);
  const inner = { ...document, text, source, inside: name, start, outward };
  return { document: inner, name, role };
}

const classesOf = (
  document: SourceDocument,
  value: Mapping,
  path: Path,
  kind: ClassObject["kind"],
  more: Mapping,
): readonly ClassObject[] => {
  const key = kind === "storage" ? "storageClasses" : "volumeSnapshotClasses";
  const defaults = kind === "storage" ? { volumeBindingMode: "WaitForFirstConsumer", ...more } : more;
  return listAt(value, key).flatMap((item, index) =>
    isMapping(item)
      ? [
          {
            document,
            kind,
            path: [...path, key, index],
            value: { ...defaults, ...item },
            provisioner: driverName(value),
            inHelm: true,
          },
        ]
      : [],
  );
};
