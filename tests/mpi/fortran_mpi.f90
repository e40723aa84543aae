! The operations from Fortran, by "use mpi".
program fortran_mpi
    use mpi
    implicit none
    include 'fortran_main.inc'
    include 'fortran_cases.inc'
end program
