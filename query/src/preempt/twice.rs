//! A memory pool in which whatever operators reserve counts twice: for plans whose rows are large.
//!
//! Operators reserve the rows that they hold. To put them out, to sort or to spill them they make copies, and buffers double as they
//! grow; none of that is reserved. With rows of usual sizes the copies are those of one batch. With large values the rows that an
//! aggregation holds for one batch of groups are most of its memory.

use std::{fmt, sync::Arc};

use datafusion::{
    common::Result,
    execution::{
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
        runtime_env::RuntimeEnv,
    },
};

/// The runtime with such a pool over its own.
pub(super) fn runtime(all: &RuntimeEnv) -> Arc<RuntimeEnv> {
    let copies = MemoryConsumer::new("copies of large values").register(&all.memory_pool);
    let pool = Twice { all: all.memory_pool.clone(), copies };
    Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), ..all.clone() })
}

#[derive(Debug)]
struct Twice {
    all: Arc<dyn MemoryPool>,
    /// As much as all others of the plan have reserved.
    copies: MemoryReservation,
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, of which all is counted twice", self.all)
    }
}

impl MemoryPool for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.copies.grow(additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.copies.shrink(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.copies.try_grow(additional)?;
        self.all.try_grow(reservation, additional).inspect_err(|_| {
            self.copies.shrink(additional);
        })
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::execution::{memory_pool::FairSpillPool, runtime_env::RuntimeEnvBuilder};

    use super::*;

    #[test]
    fn what_operators_reserve_counts_twice_until_it_is_free() {
        let all = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(1_000))).build().unwrap();
        let twice = runtime(&all);
        let table = MemoryConsumer::new("table").with_can_spill(true).register(&twice.memory_pool);
        let buffer = MemoryConsumer::new("buffer").register(&twice.memory_pool);
        table.try_grow(300).unwrap();
        buffer.try_grow(100).unwrap();
        assert_eq!(all.memory_pool.reserved(), 800);
        assert!(table.try_grow(101).is_err() && buffer.try_grow(101).is_err());
        assert_eq!(all.memory_pool.reserved(), 800, "what was refused is not counted");
        table.shrink(200);
        buffer.try_grow(200).unwrap();
        table.grow(50);
        assert_eq!(all.memory_pool.reserved(), 900);
        drop((table, buffer, twice));
        assert_eq!(all.memory_pool.reserved(), 0);
    }
}
