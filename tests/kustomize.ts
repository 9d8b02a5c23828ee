/** An entry of `replacements` in a kustomization.yaml. */
export interface Replacement {
  readonly source: { readonly kind: string; readonly fieldPath: string };
  readonly targets: readonly {
    readonly select: { readonly kind: string };
    readonly fieldPaths: readonly string[];
    readonly options?: { readonly delimiter: string; readonly index: number };
  }[];
}

/** The object and the key of a field path of kustomize ("[name=x]" selects an entry of a list). */
function fieldOf(object: unknown, path: string): readonly [Record<string, unknown>, string] {
  const keys = path.match(/\[[^\]]*\]|[^.]+/g) ?? [];
  const last = keys.at(-1) ?? "";
  let here = object as Record<string, unknown>;
  for (const key of keys.slice(0, -1)) {
    const wanted = /^\[name=(.*)\]$/.exec(key)?.[1];
    const next =
      wanted === undefined
        ? here[key]
        : Object.values(here).find(each => (each as { readonly name: string }).name === wanted);
    here = next as Record<string, unknown>;
  }
  return [here, last];
}

/** Applies replacements to objects, like `kubectl kustomize`. */
export function replaced(objects: readonly { readonly kind: string }[], replacements: readonly Replacement[]): void {
  for (const { source, targets } of replacements) {
    const from = objects.find(({ kind }) => kind === source.kind);
    const [holder, key] = fieldOf(from, source.fieldPath);
    for (const { select, fieldPaths, options } of targets)
      for (const object of objects.filter(({ kind }) => kind === select.kind))
        for (const [target, field] of fieldPaths.map(path => fieldOf(object, path))) {
          const parts = options ? String(target[field]).split(options.delimiter) : [];
          if (options) parts[options.index] = String(holder[key]);
          target[field] = options ? parts.join(options.delimiter) : holder[key];
        }
  }
}
