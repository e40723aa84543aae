! app.f90 of the pages: a broadcast of 4 MB, checked.
program app
    use mpi
    implicit none
    integer, parameter :: count = 1000000
    integer :: buffer(count), rank, error

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    buffer = rank
    call MPI_Bcast(buffer, count, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
    if (any(buffer /= 0)) call MPI_Abort(MPI_COMM_WORLD, 1, error)
    call MPI_Finalize(error)
end program app
