import type { Path } from "../../schema/finding.ts";
import type { DocumentDiagnostic, SourceDocument } from "../document.ts";
import { listAt, textAt } from "../lint-input.ts";
import { type Rule, report, type Theme } from "../rule.ts";
import { argsOf, containersOf, isServing, valuesOf } from "../workloads.ts";

const placeholderImage: Rule = {
  id: "placeholder-image",
  severity: "error",
  title: "The image comes from a registry of your own",
  why: "No registry is called `registry.example.org`: pods would wait for their image forever. An image without tag is that of a base, to which kustomize gives a name and a tag.",
};
const placeholderDriver: Rule = {
  id: "placeholder-driver",
  severity: "error",
  title: "The driver's name is not that of an example",
  why: "Volumes refer permanently to the name of their driver, so it cannot be corrected later.",
};

/** Rules about names in examples that must be replaced before a deployment is installed. */
export const placeholders: Theme = {
  rules: [placeholderImage, placeholderDriver],
  *check({ kustomizations, workloads, drivers, helm }) {
    for (const { document, path, value } of kustomizations)
      for (const [index, image] of listAt(value, "images").entries())
        yield* imageAt(document, [...path, "images", index, "newName"], textAt(image, "newName"));
    for (const workload of workloads)
      for (const [index, container] of containersOf(workload).entries()) {
        if (!isServing(container)) continue;
        const here = [...workload.path, "spec", "template", "spec", "containers", index];
        const image = textAt(container, "image");
        if (image?.includes(":")) yield* imageAt(workload.document, [...here, "image"], image);
        for (const name of valuesOf(argsOf(container), "--name"))
          yield* driverAt(workload.document, [...here, "args"], name);
      }
    for (const { document, path, value } of drivers)
      yield* driverAt(document, [...path, "metadata", "name"], textAt(value, "metadata", "name"));
    for (const { document, value } of helm) {
      yield* driverAt(document, ["csiDriver", "name"], textAt(value, "csiDriver", "name"));
      for (const part of ["controller", "node"]) {
        const here = [part, "driver", "image", "registry"];
        yield* imageAt(document, here, textAt(value, ...here));
      }
    }
  },
};

type Found = Iterable<DocumentDiagnostic>;

function* imageAt(document: SourceDocument, path: Path, image: string | undefined): Found {
  if (!image?.startsWith("registry.example.")) return;
  const message = `"${image}" is the placeholder of an example, so no node can pull it`;
  yield report(document, placeholderImage, path, message, "write the name of csimux's image in your registry");
}

function* driverAt(document: SourceDocument, path: Path, name: string | undefined): Found {
  if (!/^org\.example\.csimux\b/.test(name ?? "")) return;
  const message = `"${name}" is the placeholder of an example, and volumes refer permanently to the name of their driver`;
  yield report(document, placeholderDriver, path, message, 'write "csimux.storage", or a name below a domain of yours');
}
