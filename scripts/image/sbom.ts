import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../spawned.ts";
import type { Architecture } from "./archive.ts";

interface Component {
  readonly name: string;
  readonly version: string;
  /** Package URL: what scanners look up. */
  readonly purl: string;
}

interface LockFile {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dev?: boolean }>>;
}

/** The Debian packages of a folder that rootfs.sh has written. */
async function debianPackages(folder: string, architecture: Architecture): Promise<readonly Component[]> {
  const status = join(folder, "var/lib/dpkg/status.d");
  const components = [];
  for (const name of (await readdir(status)).sort()) {
    const control = await readFile(join(status, name), "utf8");
    const version = /^Version: (.*)$/m.exec(control)?.[1] ?? "";
    const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12`;
    components.push({ name, version, purl });
  }
  return components;
}

/** What is compiled into the executable: Bun, and the packages that are not for development alone. */
async function npmPackages(): Promise<readonly Component[]> {
  const { packages } = JSON.parse(await readFile(`${root}/package-lock.json`, "utf8")) as LockFile;
  const there = Object.entries(packages).flatMap(([path, { version, dev }]) => {
    const name = path.replace(/^.*node_modules\//, "");
    if (version === undefined || path === "" || (dev && name !== "bun")) return [];
    return [{ name, version, purl: `pkg:npm/${name.replace("@", "%40")}@${version}` }];
  });
  return there;
}

const asPackage = ({ name, version, purl }: Component, index: number) => ({
  SPDXID: `SPDXRef-Package-${index}`,
  name,
  versionInfo: version,
  downloadLocation: "NOASSERTION",
  filesAnalyzed: false,
  licenseConcluded: "NOASSERTION",
  licenseDeclared: "NOASSERTION",
  copyrightText: "NOASSERTION",
  externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl }],
});

/** The bill of materials of the image for one processor (SPDX 2.3, JSON); equal for equal images. */
export async function billOfMaterials(folder: string, architecture: Architecture, version: string): Promise<string> {
  const own = { name: "csimux", version, purl: `pkg:generic/csimux@${version}` };
  const parts = [own, ...(await npmPackages()), ...(await debianPackages(folder, architecture))];
  const packages = parts.map(asPackage);
  const relationships = packages.map(({ SPDXID }, index) => ({
    spdxElementId: index === 0 ? "SPDXRef-DOCUMENT" : "SPDXRef-Package-0",
    relationshipType: index === 0 ? "DESCRIBES" : "DEPENDS_ON",
    relatedSpdxElement: SPDXID,
  }));
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `csimux-${version}-${architecture}`,
    documentNamespace: `https://spdx.org/spdxdocs/csimux-${version}-${architecture}`,
    creationInfo: { created: "1970-01-01T00:00:00Z", creators: ["Tool: csimux make image"] },
    packages,
    relationships,
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
