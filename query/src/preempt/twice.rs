//! A memory pool that counts every reservation twice: for plans with large rows.
//!
//! Operators reserve the rows that they hold. To emit, sort or spill them they make copies, and buffers double as they
//! grow; none of that is reserved. With rows of usual sizes the copies amount to one batch. With large values, the rows
//! that an aggregation holds for one batch of groups are most of its memory.

use std::{fmt, sync::Arc};

use datafusion::{
    common::Result,
    execution::{
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
        runtime_env::RuntimeEnv,
    },
};

/// Returns the runtime with such a pool over its own pool.
pub(super) fn runtime(all: &RuntimeEnv) -> Arc<RuntimeEnv> {
    let copies = MemoryConsumer::new("copies of large values").register(&all.memory_pool);
    let pool = Twice { all: all.memory_pool.clone(), copies };
    Arc::new(RuntimeEnv { memory_pool: Arc::new(pool), ..all.clone() })
}

#[derive(Debug)]
struct Twice {
    all: Arc<dyn MemoryPool>,
    /// As much as all other reservations of the plan together.
    copies: MemoryReservation,
}

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, counted twice", self.all)
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
    fn reservations_count_twice_until_they_are_freed() {
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
