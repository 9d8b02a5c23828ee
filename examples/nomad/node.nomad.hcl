# The node plugin of csimux, on every client whose tasks use volumes.
job "csimux-node" {
  datacenters = ["dc1"]
  type        = "system"
  priority    = 80

  # A client without a zone has no volumes.
  constraint {
    attribute = "${meta.zone}"
    operator  = "is_set"
  }

  group "node" {
    task "csimux" {
      driver = "docker"
      env {
        CSI_NODE_ID = "${node.unique.name}"
        NODE_ZONE   = "${meta.zone}"
      }
      config {
        image        = "registry.example.org/csimux:0.1.0"
        privileged   = true # it mounts volumes
        network_mode = "host"
        ipc_mode     = "host"
        args         = ["--name", "csimux.example.org", "--mode", "node", "--config", "/local/proxy.yaml"]
      }
      template {
        destination = "local/proxy.yaml"
        data        = <<EOH
driver: proxy
proxy:
  nodeTopology:
    type: zone
    prefix: csimux.example.org
    fromRegexp:
      - topologyKey: zone
        source: env
        envName: NODE_ZONE
EOH
      }
      csi_plugin {
        id             = "csimux"
        type           = "node"
        mount_dir      = "/csi"
        health_timeout = "60s"
      }
      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
