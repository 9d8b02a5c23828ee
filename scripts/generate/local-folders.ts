import { basename } from "node:path";
import { parseDocument } from "yaml";
import { modules } from "../../lib/drivers/index.ts";
import { exampleFiles } from "../../tests/drivers/example-files.ts";
import { type Generated, partsOf } from "./generated.ts";

/** The folders on nodes in which the examples of local drivers have their volumes, by the name of the connection. */
const folders = exampleFiles
  .filter(({ file }) => file.startsWith("local/"))
  .flatMap(({ file, driver, text }) => {
    const facts = modules.find(({ names }) => names.includes(driver))?.facts;
    const roots = facts?.local ? (facts.territory?.trees ?? []) : [];
    const paths = roots.map(path => String(parseDocument(text).getIn(path)));
    return paths.filter(path => path.startsWith("/")).map(path => ({ name: basename(file, ".yaml"), path }));
  });

/** The mounts of those folders in examples/local/helm-values.yaml. */
export function localFolders(): Promise<Generated> {
  const mounts = folders.map(
    ({ name, path }) => `\
      - name: ${name}
        mountPath: ${path}
        mountPropagation: Bidirectional
`,
  );
  const volumes = folders.map(
    ({ name, path }) => `\
    - name: ${name}
      hostPath:
        path: ${path}
        type: DirectoryOrCreate
`,
  );
  return partsOf("examples/local/helm-values.yaml", [mounts.join(""), volumes.join("")]);
}
