# nomad volume register register.hcl: a volume that csimux has already.
# Its external_id and context: nomad operator api '/v1/volumes/external?plugin_id=csimux'
id          = "old-data"
name        = "old-data"
type        = "csi"
plugin_id   = "csimux"
external_id = "v:nas1/old-data"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
context {
  node_attach_driver = "nfs"
  provisioner_driver = "nfs-client"
  server             = "nas1.example.org"
  share              = "/export/nomad/v/old-data"
}
