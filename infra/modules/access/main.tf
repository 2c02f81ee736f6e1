# Rights of each kind of process in a root. They follow from the root's layout, so they are defined
# here once, for functions and for tasks.

locals {
  objects = "${var.store.bucket_arn}/${var.store.prefix}"

  look = [
    {
      Sid      = "ReadRoot"
      Effect   = "Allow"
      Action   = ["s3:GetObject"]
      Resource = ["${local.objects}/*"]
    },
    {
      # S3 reports a missing key as 404 instead of 403 only to callers that may list the bucket, and a GET has no prefix: the condition
      # must hold without one. Such GETs look for the next version of the chain.
      Sid       = "ListRoot"
      Effect    = "Allow"
      Action    = ["s3:ListBucket"]
      Resource  = [var.store.bucket_arn]
      Condition = { StringLikeIfExists = { "s3:prefix" = ["${var.store.prefix}/*"] } }
    },
  ]

  decrypt = var.store.kms_key_arn == null ? [] : [
    {
      Sid      = "Decrypt"
      Effect   = "Allow"
      Action   = ["kms:Decrypt"]
      Resource = [var.store.kms_key_arn]
    },
  ]

  encrypt = var.store.kms_key_arn == null ? [] : [
    {
      Sid      = "Encrypt"
      Effect   = "Allow"
      Action   = ["kms:GenerateDataKey"]
      Resource = [var.store.kms_key_arn]
    },
  ]

  # A writer creates versions, segments, idempotency keys, and objects that only probe the store's clock. It deletes the
  # clock probes and nothing else, and never puts a data file.
  create = [
    {
      Sid      = "CreateVersionsAndSegments"
      Effect   = "Allow"
      Action   = ["s3:PutObject"]
      Resource = [for part in ["meta", "log", "idem", "clock"] : "${local.objects}/${part}/*"]
    },
    {
      Sid      = "DeleteClockProbes"
      Effect   = "Allow"
      Action   = ["s3:DeleteObject"]
      Resource = ["${local.objects}/clock/*"]
    },
  ]

  # Compaction puts data files and versions, and deletes objects that no version needs any more.
  change = [
    {
      Sid      = "WriteAndCollectRoot"
      Effect   = "Allow"
      Action   = ["s3:PutObject", "s3:DeleteObject"]
      Resource = ["${local.objects}/*"]
    },
  ]

  # Other engines read only the data files (Parquet), not users and rights.
  data = [
    {
      Sid      = "ReadDataFiles"
      Effect   = "Allow"
      Action   = ["s3:GetObject"]
      Resource = ["${local.objects}/data/*"]
    },
    {
      Sid       = "ListDataFiles"
      Effect    = "Allow"
      Action    = ["s3:ListBucket"]
      Resource  = [var.store.bucket_arn]
      Condition = { StringLike = { "s3:prefix" = ["${var.store.prefix}/data", "${var.store.prefix}/data/*"] } }
    },
  ]

  keep_result = [
    {
      # Multipart uploads, aborted if the response fails.
      Sid      = "KeepLargeResults"
      Effect   = "Allow"
      Action   = ["s3:PutObject", "s3:AbortMultipartUpload"]
      Resource = ["${local.objects}/results/*"]
    },
  ]
}
