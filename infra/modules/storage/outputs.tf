output "store" {
  description = "Where the root lies, for the other modules."
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
  description = "The root as `TIDELAKE_STORE` and `tidelake serve --store` take it."
  value       = "s3://${local.bucket}/${var.prefix}"
}
