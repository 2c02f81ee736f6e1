# A root in a bucket and the services that use it. Each part is optional; defaults are those of the modules.

data "aws_region" "current" {}

module "storage" {
  source = "./modules/storage"

  name            = var.name
  create_bucket   = var.storage.create_bucket
  bucket          = var.storage.bucket
  prefix          = var.storage.prefix
  force_destroy   = var.storage.force_destroy
  kms_key_arn     = var.storage.kms_key_arn
  lifecycle_rules = var.storage.lifecycle_rules
  results_days    = var.storage.results_days
  tiers           = var.storage.tiers
  replicate_to    = var.storage.replicate_to
  noncurrent_days = var.storage.noncurrent_days
  tags            = var.tags
}

module "access" {
  source = "./modules/access"
  store  = module.storage.store
}

# Functions in a VPC reach S3 through this endpoint at no cost, without a NAT gateway.
resource "aws_vpc_endpoint" "s3" {
  count = length(try(var.vpc.s3_endpoint_route_tables, [])) > 0 ? 1 : 0

  vpc_id            = var.vpc.vpc_id
  vpc_endpoint_type = "Gateway"
  service_name      = "com.amazonaws.${data.aws_region.current.name}.s3"
  route_table_ids   = var.vpc.s3_endpoint_route_tables
  tags              = var.tags
}

locals {
  # Settings of each function, by zip name.
  parts = {
    ingest-http  = var.ingest
    ingest-queue = var.queue
    compact      = var.compaction
    query-http   = var.query
  }

  # Also set for omitted parts, where nothing reads them: a condition on a part with a sensitive value would make all
  # settings sensitive.
  settings = {
    for zip, part in local.parts : zip => {
      store                = module.storage.store
      package              = "${var.packages}/${zip}.zip"
      name                 = "${var.name}-${zip}"
      architecture         = var.architecture
      memory               = try(part.memory, null)
      timeout              = try(part.timeout, null)
      ephemeral_storage    = try(part.ephemeral_storage, null)
      reserved_concurrency = try(part.reserved_concurrency, null)
      environment          = try(part.environment, null)
      log_level            = var.log_level
      log_retention_days   = var.log_retention_days
      tracing              = var.tracing
      vpc                  = var.vpc
      tags                 = var.tags
    }
  }
}

module "ingest" {
  source = "./modules/ingest"
  count  = var.ingest == null ? 0 : 1

  function = local.settings["ingest-http"]

  url = {
    auth                     = var.ingest.auth
    users                    = var.ingest.users
    token_secret_arn         = var.ingest.token_secret_arn
    token_secret_kms_key_arn = var.ingest.token_secret_kms_key_arn
  }

  auto_create_database = var.ingest.auto_create_database
  max_body             = var.ingest.max_body
}

module "queue" {
  source = "./modules/queue"
  count  = var.queue == null ? 0 : 1

  function               = local.settings["ingest-queue"]
  database               = var.queue.database
  format                 = var.queue.format
  other_formats          = var.queue.other_formats
  other_databases        = var.queue.other_databases
  precision              = var.queue.precision
  dedup                  = var.queue.dedup
  fifo                   = var.queue.fifo
  kinesis_stream_arn     = var.queue.kinesis_stream_arn
  starting_position      = var.queue.starting_position
  parallelization_factor = var.queue.parallelization_factor
  batch_size             = var.queue.batch_size
  batch_seconds          = var.queue.batch_seconds
  maximum_concurrency    = var.queue.maximum_concurrency
  max_receive_count      = var.queue.max_receive_count
  visibility_timeout     = var.queue.visibility_timeout
  message_retention_days = var.queue.message_retention_days
  source_kms_key_arn     = var.queue.source_kms_key_arn
  auto_create_database   = var.queue.auto_create_database
}

locals {
  # Null means the default everywhere in this module, so a null schedule has a keyword.
  schedules = {
    collect = try(coalesce(var.compaction.collect_schedule, "rate(1 hour)"), null)
    sweep   = try(coalesce(var.compaction.sweep_schedule, "rate(1 day)"), null)
  }
}

module "compaction" {
  source = "./modules/compaction"
  count  = var.compaction == null ? 0 : 1

  function         = local.settings["compact"]
  schedule         = var.compaction.on_demand_only ? null : coalesce(var.compaction.schedule, "rate(1 minute)")
  collect_schedule = local.schedules.collect == "never" ? null : local.schedules.collect
  sweep_schedule   = local.schedules.sweep == "never" ? null : local.schedules.sweep
  continues        = var.compaction.continues
}

module "query" {
  source = "./modules/query"
  count  = var.query == null ? 0 : 1

  function = local.settings["query-http"]

  url = {
    auth                     = var.query.auth
    users                    = var.query.users
    token_secret_arn         = var.query.token_secret_arn
    token_secret_kms_key_arn = var.query.token_secret_kms_key_arn
  }

  response = var.query.response
}

module "flight" {
  source = "./modules/flight"
  count  = var.flight == null ? 0 : 1

  name                      = "${var.name}-flight"
  store                     = module.storage.store
  architecture              = var.architecture
  image                     = var.flight.image
  image_repository_arn      = var.flight.image_repository_arn
  vpc_id                    = var.flight.vpc_id
  subnet_ids                = var.flight.subnet_ids
  load_balancer_subnet_ids  = var.flight.load_balancer_subnet_ids
  allowed_cidrs             = var.flight.allowed_cidrs
  direct_cidrs              = var.flight.direct_cidrs
  auth                      = var.flight.auth
  admin_password_secret_arn = var.flight.admin_password_secret_arn
  certificate_arn           = var.flight.certificate_arn
  hostname                  = var.flight.hostname
  zone_id                   = var.flight.zone_id
  port                      = var.flight.port
  internal                  = var.flight.internal
  assign_public_ip          = var.flight.assign_public_ip
  cpu                       = var.flight.cpu
  memory                    = var.flight.memory
  min_tasks                 = var.flight.min_tasks
  max_tasks                 = var.flight.max_tasks
  cpu_target                = var.flight.cpu_target
  disk_cache_size           = var.flight.disk_cache_size
  disk_gib                  = var.flight.disk_gib
  namespace                 = var.flight.namespace
  s3_endpoint_route_tables  = var.flight.s3_endpoint_route_tables
  deletion_protection       = var.flight.deletion_protection
  environment               = var.flight.environment
  log_level                 = var.log_level
  log_retention_days        = var.log_retention_days
  tags                      = var.tags
}

locals {
  # The created functions, by zip name.
  functions = merge(
    { for part in module.ingest : "ingest-http" => part },
    { for part in module.queue : "ingest-queue" => part },
    { for part in module.compaction : "compact" => part },
    { for part in module.query : "query-http" => part },
  )
}

module "observability" {
  source = "./modules/observability"
  count  = var.observability == null ? 0 : 1

  name               = var.name
  functions          = { for name, part in local.functions : name => part.function }
  compaction         = var.compaction == null ? null : "compact"
  compaction_seconds = try(coalesce(var.observability.compaction_seconds, one(module.compaction[*].interval_seconds)), null)
  stream_reader      = try(var.queue.kinesis_stream_arn, null) == null ? null : "ingest-queue"
  queue_name         = one(module.queue[*].queue_name)
  dead_letters       = { for part in module.queue : "ingest-queue" => part.dead_letter_name }
  alarms             = var.observability.alarms
  email              = var.observability.email
  lag_seconds        = var.observability.lag_seconds
  near_timeout       = var.observability.near_timeout
  stream_age_seconds = var.observability.stream_age_seconds
  dashboard          = var.observability.dashboard
  monthly_budget     = var.observability.monthly_budget
  budget_tag         = var.observability.budget_tag
  tags               = var.tags
}
