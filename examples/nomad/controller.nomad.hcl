# The controller of csimux. Nomad calls one healthy controller; a second one (count = 2) takes over when it fails.
job "csimux-controller" {
  datacenters = ["dc1"]
  type        = "service"

  group "controller" {
    task "csimux" {
      driver = "docker"
      config {
        image        = "registry.example.org/csimux:0.1.0"
        privileged   = true # the controller mounts the share of an nfs-client connection itself
        network_mode = "host"
        args         = ["--name", "csimux.example.org", "--mode", "controller", "--config", "/local/proxy.yaml"]
      }
      template {
        destination = "local/proxy.yaml"
        change_mode = "restart"
        data        = <<EOH
driver: proxy
proxy:
  configFolder: /secrets/connections
  # Nomad never takes a short listing for a deletion.
  listing: partial
  nodeTopology:
    type: zone
    prefix: csimux.example.org
    fromRegexp:
      - topologyKey: zone
        source: env
        envName: NODE_ZONE
  groups:
    any:
      members: [nas1, nas2]
      policy: most-free
EOH
      }
      # One template per connection. Secrets come from Vault or Nomad variables. csimux reads a changed file without a restart.
      template {
        destination = "secrets/connections/nas1.yaml"
        change_mode = "noop"
        data        = <<EOH
driver: nfs-client
nfs:
  shareHost: nas1.example.org
  shareBasePath: /export/nomad
  controllerBasePath: /storage/nas1
  # Nomad has no fsGroup: give the folders the owner or the mode that the tasks need.
  dirPermissionsMode: "0777"
proxy:
  perDriver:
    topology:
      - requirements:
          zone: z1
EOH
      }
      template {
        destination = "secrets/connections/nas2.yaml"
        change_mode = "noop"
        data        = <<EOH
driver: nfs-client
nfs:
  shareHost: nas2.example.org
  shareBasePath: /export/nomad
  controllerBasePath: /storage/nas2
  dirPermissionsMode: "0777"
proxy:
  perDriver:
    topology:
      - requirements:
          zone: z2
EOH
      }
      csi_plugin {
        id             = "csimux"
        type           = "controller"
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
