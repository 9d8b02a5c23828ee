import { expect, test } from "bun:test";
import { TopologyWorld } from "../cmd/topology-world.ts";

const main = `driver: proxy
proxy:
  configFolder: connections
  nodeTopology:
    type: zone
    prefix: t.example
    fromRegexp:
      - { topologyKey: zone, source: nodeName, regex: '([ew])[0-9]+', template: '{match:1}' }
`;

const connection = (zone: string) => `driver: nfs-client
nfs: { shareHost: 10.0.0.1, shareBasePath: /x }
proxy: { perDriver: { topology: [{ requirements: { zone: ${zone} } }] } }
`;

test("--svg draws the map as a picture instead of the text", async () => {
  const world = new TopologyWorld();
  try {
    world.file("pictured/ok.yaml", connection("e"));
    world.file("pictured/lost.yaml", connection("nowhere"));
    world.file("pictured/bad.yaml", "driver: [");
    const config = world.file("proxy.yaml", main);
    const nodes = world.file("nodes", "e1\ne2\nw1\n");
    const words = ["--config", config, "--nodes", nodes, "--connections", `${world.folder}/pictured`];
    const { code, out } = await world.run([...words, "--svg", "-"]);
    expect(code).toBe(1);
    expect(out).toStartWith("<svg xmlns=");
    expect(out).toContain("bad (its file is wrong): perhaps zone=e, perhaps zone=w.");
    expect(out).toContain("lost (no node): reached from nowhere.");
    expect(out).toContain("ok: zone=e.");
    expect(out).toContain("zone=e: e1, e2");
    // The legend explains the colours that are in the picture.
    expect(out).toContain(">✕ ● the connection cannot be used</text>");
    expect(out).not.toContain("needs attention");
    const file = `${world.folder}/map.svg`;
    expect((await world.run([...words, "--svg", file])).out).toBe("");
    expect(await Bun.file(file).text()).toBe(out);
    expect(await world.run([...words, "--svg", `${file}/x`])).toMatchObject({
      code: 2,
      err: expect.stringContaining("cannot write "),
    });
    expect((await world.run([...words, "--svg", "-", "-o", "json"])).err).toContain("--svg cannot be combined");
  } finally {
    world.remove();
  }
});
