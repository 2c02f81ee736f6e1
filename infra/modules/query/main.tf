module "access" {
  source = "../access"
  store  = var.store
}

locals {
  token = concat(
    var.token_secret_arn == null ? [] : [
      { Sid = "ReadTokens", Action = ["secretsmanager:GetSecretValue"], Resource = [var.token_secret_arn] },
    ],
    var.token_secret_kms_key_arn == null ? [] : [
      { Sid = "DecryptTokens", Action = ["kms:Decrypt"], Resource = [var.token_secret_kms_key_arn] },
    ],
  )
}

module "function" {
  source = "../function"

  name                 = var.name
  description          = "Tidelake: SQL over HTTP, read only"
  package              = var.package
  architecture         = var.architecture
  memory               = var.memory
  timeout              = var.timeout
  ephemeral_storage    = var.ephemeral_storage
  reserved_concurrency = var.reserved_concurrency
  log_retention_days   = var.log_retention_days
  tracing              = var.tracing
  vpc                  = var.vpc
  tags                 = var.tags

  url = { auth = var.auth, invoke_mode = var.response == "stream" ? "RESPONSE_STREAM" : "BUFFERED" }

  environment = merge(
    {
      TIDELAKE_STORE = var.store.url
      TIDELAKE_LOG   = var.log_level
      # Some seconds before the platform ends the invocation, so that who asks is told why.
      TIDELAKE_QUERY_TIMEOUT = "${var.timeout - min(5, ceil(var.timeout / 4))}s"
      TIDELAKE_AUTH          = var.users ? "users" : null
      TIDELAKE_TOKEN_SECRET  = var.token_secret_arn
      TIDELAKE_RESPONSE      = var.response
    },
    var.environment,
  )

  statements = concat(module.access.query, local.token)
}
