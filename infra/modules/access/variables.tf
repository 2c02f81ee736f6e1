variable "store" {
  description = "Where the root lies, as the output `store` of the storage module says it."
  type = object({
    url         = string
    bucket_arn  = string
    prefix      = string
    kms_key_arn = optional(string)
  })
  nullable = false
}
