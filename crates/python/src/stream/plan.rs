//! Plans of joins and group-bys: the arguments of koel-arrow, which are known before any row is read. Only this module
//! creates koel-arrow's structs.

use koel::{Any, IdOrder, JoinKind};
use koel_arrow::external::{GroupBy, Join, Limit, Of, Output, Stage};
use koel_arrow::{NullEquality, NullKeys};

pub(crate) struct JoinPlan {
    pub(crate) on: Vec<(usize, usize)>,
    pub(crate) how: JoinKind,
    pub(crate) nulls: NullEquality,
    pub(crate) columns: Vec<Output>,
    pub(crate) limit: Limit,
}

impl JoinPlan {
    pub(crate) fn join<'a>(&'a self, devices: &'a [Any], watch: &'a dyn Fn(Stage)) -> Join<'a> {
        let JoinPlan { on, how, nulls, columns, limit } = self;
        Join { devices, on, how: *how, nulls: *nulls, columns, limit, watch }
    }
}

pub(crate) struct GroupPlan {
    pub(crate) by: Vec<usize>,
    pub(crate) aggregates: Vec<Of>,
    pub(crate) order: IdOrder,
    pub(crate) nulls: NullKeys,
    pub(crate) limit: Limit,
}

impl GroupPlan {
    pub(crate) fn group_by<'a>(&'a self, devices: &'a [Any], watch: &'a dyn Fn(Stage)) -> GroupBy<'a> {
        let GroupPlan { by, aggregates, order, nulls, limit } = self;
        GroupBy { devices, by, aggregates, order: *order, nulls: *nulls, limit, watch }
    }
}
