variable "store" {
  description = "Location of the root: the output `store` of the storage module."
  type = object({
    url         = string
    bucket_arn  = string
    prefix      = string
    kms_key_arn = optional(string)
  })
  nullable = false

  validation {
    condition     = can(regex("^s3://[^/]+/.+$", var.store.url)) && endswith(var.store.url, "/${var.store.prefix}") && can(regex("^arn:[a-z-]+:s3:::[^/*]+$", var.store.bucket_arn)) && can(regex("^[^/*]+(/[^/*]+)*$", var.store.prefix))
    error_message = "Invalid store: expected the output store of the storage module, whose url is s3://BUCKET/PREFIX, bucket_arn is arn:aws:s3:::BUCKET, the prefix has no slashes around it."
  }
}
