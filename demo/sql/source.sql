-- A small shop as its developers left it: nobody has thought of replication yet.
create role pgrepl login;
create table customer (
    id             bigint generated always as identity primary key,
    email          text not null unique,
    purchase_count integer not null default 0
);
create table purchase (
    id          bigint generated always as identity primary key,
    customer_id bigint not null references customer,
    amount      numeric(12, 2) not null,
    bought_at   timestamptz not null default now()
);
create table page_view (
    id      bigint generated always as identity,
    path    text not null,
    seen_at timestamptz not null default now()
);
insert into customer (email) select 'customer' || n || '@example.org' from generate_series(1, 1000) n;
insert into purchase (customer_id, amount) select 1 + n % 1000, n % 97 from generate_series(1, 5000) n;
insert into page_view (path) select '/article/' || n from generate_series(1, 5000) n;
