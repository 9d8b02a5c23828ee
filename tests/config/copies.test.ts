import { describe, expect, test } from "bun:test";
import { readConnection } from "../../lib/config/connection.ts";
import { noDefaults, readProxyConfig } from "../../lib/config/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";

const none = { env: () => undefined, file: () => undefined };
const main = (copies: string) => readProxyConfig("proxy.yaml", `driver: proxy\nproxy: ${copies}\n`, none);
const connection = (copies: string) => {
  const text = `driver: nfs-client\nnfs: { shareHost: a, shareBasePath: /v, controllerBasePath: /v }\ncopies: ${copies}\n`;
  return readConnection("c1", "c1.yaml", text, noDefaults, none, modules);
};

describe("the settings of copies between connections", () => {
  test("have the defaults of the documentation", () => {
    const usual = { enabled: true, atOnce: 2, perMachine: 1, idleMs: 1_200_000, keepSeconds: 259_200 };
    expect(main("{}").config?.copies).toEqual(usual);
    expect(main("{ copies: {} }").config?.copies).toEqual(usual);
    expect(main("{ copies: { enabled: false, keepHours: 1 } }").config?.copies).toEqual({
      ...usual,
      enabled: false,
      keepSeconds: 3_600,
    });
  });

  test.each(["atOnce: 0", "perMachine: 0", "idleMinutes: 0", "keepHours: 0", "keepHours: 1.5"])("refuse %s", wrong => {
    expect(main(`{ copies: { ${wrong} } }`).config).toBeUndefined();
  });

  test("of a connection allow everything by default, and otherwise what a group could name", () => {
    const any = { from: undefined, to: undefined, allowPlain: false, dropAcls: false };
    expect(connection("{}").config?.copies).toEqual(any);
    const some = connection("{ from: { selector: tier=fast }, to: { members: [] }, allowPlain: true, drop: [acls] }");
    expect(some.config?.copies).toMatchObject({
      from: { kind: "selector" },
      to: { kind: "members", members: [] },
      allowPlain: true,
      dropAcls: true,
    });
  });

  test.each(["from: { members: [a], selector: b=c }", "from: {}", "to: { members: ['../a'] }", "drop: [times]"])(
    "of a connection refuse %s",
    wrong => {
      expect(connection(`{ ${wrong} }`).config).toBeUndefined();
    },
  );

  test("of a connection describe a login like the driver's own", () => {
    const { config } = connection("{ sshConnection: { host: nas, username: csi, password: pw } }");
    expect(config?.copySsh).toMatchObject({ host: "nas", port: 22, username: "csi" });
    expect(connection("{ sshConnection: { host: nas } }").config).toBeUndefined();
  });
});
