# What each kind of process may do in a root. The layout of the root is the reason for every line, so the rights are written
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
      # S3 says that a key is missing (404, not 403) only to who may list the bucket, and a GET names no prefix: the condition
      # has to hold without one. The next version of the chain is looked for by such GETs.
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

  # Who writes creates versions, segments, idempotency keys, and objects put only to read the store's clock. It deletes the
  # last of these and nothing else, and never puts a data file.
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

  # Who compacts puts data files and versions, and collects what no version needs any more.
  change = [
    {
      Sid      = "WriteAndCollectRoot"
      Effect   = "Allow"
      Action   = ["s3:PutObject", "s3:DeleteObject"]
      Resource = ["${local.objects}/*"]
    },
  ]

  # Other engines read the data files, which are Parquet, and nothing that says who may do what.
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
      # Put in parts, and given up where the answer breaks off.
      Sid      = "KeepLargeResults"
      Effect   = "Allow"
      Action   = ["s3:PutObject", "s3:AbortMultipartUpload"]
      Resource = ["${local.objects}/results/*"]
    },
  ]
}
