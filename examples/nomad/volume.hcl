# nomad volume create volume.hcl
id           = "data"
name         = "data" # unique over all namespaces: an equal name is the same volume
type         = "csi"
plugin_id    = "csimux"
capacity_min = "1GiB"
capability {
  access_mode     = "multi-node-multi-writer"
  attachment_mode = "file-system"
}
parameters {
  connection = "any" # a connection or a group
}
topology_request {
  required {
    topology {
      segments {
        "csimux.example.org/zone" = "z1"
      }
    }
  }
}
