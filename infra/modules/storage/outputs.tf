output "store" {
  description = "Location of the root, for the other modules."
  value = {
    url         = "s3://${local.bucket}/${var.prefix}"
    bucket_arn  = local.bucket_arn
    prefix      = var.prefix
    kms_key_arn = var.kms_key_arn
  }
}

output "bucket" {
  description = "Name of the bucket."
  value       = local.bucket
}

output "bucket_arn" {
  description = "ARN of the bucket."
  value       = local.bucket_arn
}

output "url" {
  description = "URL of the root for `TIDELAKE_STORE` and `tidelake serve --store`."
  value       = "s3://${local.bucket}/${var.prefix}"
}
